package engine

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/spate-load/spate/clock"
)

// decoder is the continuous batching of one engine. The batch of a step is every sequence that has its first token when
// the step starts. The step takes DecodeStep + (batch-1) x DecodeStepPerRequest at full pace, plus any jitter and
// stalls, and then gives each sequence of the batch one token. The next step starts at the same instant or, if there is
// nothing to decode, when a sequence joins.
type decoder struct {
	model costs
	noise *rand.Rand // nil: steps have neither jitter nor stalls
	held  int        // sequences that hold a slot, including those in prefill

	joining  []*Sequence // have their first token and wait for the next step
	batch    []*Sequence // of the step in progress
	stepping bool
	place    int           // first of the batch that this step has not served yet
	work     time.Duration // of the step in progress, at full pace
	done     time.Duration // part of work done at the instant asOf
	asOf     clock.Instant
	pace     float64 // work done per unit of time: 1, or less during a prefill
}

// free reports whether a slot is free.
func (d *decoder) free() bool { return d.held < d.model.MaxRunning }

// hold gives a sequence a slot.
func (d *decoder) hold(s *Sequence) {
	s.phase, s.decoder = running, d
	d.held++
}

// join gives a sequence its first token. The sequence decodes from the next step on.
func (d *decoder) join(s *Sequence, at clock.Instant, dst []Emission) []Emission {
	dst = s.emit(at, dst)
	if s.phase == running {
		d.joining = append(d.joining, s)
	}
	return dst
}

// nextAction returns the decoder's next action and its instant, or false if it has nothing to do or stands still.
func (d *decoder) nextAction(now clock.Instant) (clock.Instant, action, bool) {
	switch {
	case !d.stepping:
		return now, actBeginStep, len(d.joining) > 0
	case d.pace == 1:
		return d.asOf.Add(d.target() - d.done), actServeStep, true
	case d.pace == 0:
		return now, actServeStep, d.done >= d.target()
	default:
		return d.asOf.Add(nanoseconds(math.Ceil(float64(d.target()-d.done) / d.pace))), actServeStep, true
	}
}

// target returns how much of the step's work precedes the next token.
func (d *decoder) target() time.Duration {
	if !d.model.SpreadStep {
		return d.work
	}
	return time.Duration(float64(d.work) * float64(d.place+1) / float64(len(d.batch)))
}

// setPace changes the pace at an instant.
func (d *decoder) setPace(at clock.Instant, pace float64) {
	if d.stepping {
		d.done = min(d.target(), d.done+time.Duration(float64(at.Sub(d.asOf))*d.pace))
	}
	d.asOf, d.pace = at, pace
}

// begin starts a step with the joining sequences that have not departed. If there are none, it starts no step.
func (d *decoder) begin(at clock.Instant) {
	d.batch = appendRunning(d.batch[:0], d.joining)
	d.joining = d.joining[:0]
	if len(d.batch) == 0 {
		return
	}
	d.stepping = true
	d.place = 0
	d.work, d.done, d.asOf = d.step(len(d.batch)), 0, at
}

// step returns the time of the next step at full pace.
func (d *decoder) step(batch int) time.Duration {
	work := d.model.DecodeStep + time.Duration(batch-1)*d.model.DecodeStepPerRequest
	if d.noise == nil {
		return work
	}
	jitter, stall := d.noise.NormFloat64(), d.noise.Float64()
	work = nanoseconds(Lognormal(float64(work), d.model.StepJitter, jitter))
	if stall < d.model.StallShare {
		work += d.model.Stall
	}
	return work
}

// serve gives the batch its tokens: all at once, or with SpreadStep only the next one.
func (d *decoder) serve(at clock.Instant, dst []Emission) []Emission {
	until := len(d.batch)
	if d.model.SpreadStep {
		until = d.place + 1
	}
	d.done, d.asOf = d.target(), at
	for _, s := range d.batch[d.place:until] {
		if s.phase == running {
			dst = s.emit(at, dst)
		}
	}
	d.place = until
	if until == len(d.batch) {
		d.end()
	}
	return dst
}

// end ends the step. The remaining sequences and those that have joined make up the next batch.
func (d *decoder) end() {
	d.stepping = false
	d.batch = appendRunning(d.batch[:0], d.batch)
	d.batch = append(d.batch, d.joining...)
	d.batch, d.joining = d.joining[:0], d.batch
}

func appendRunning(dst, from []*Sequence) []*Sequence {
	for _, s := range from {
		if s.phase == running {
			dst = append(dst, s)
		}
	}
	return dst
}
