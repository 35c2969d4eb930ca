package simulator

import (
	"math"
	"time"

	"github.com/spate-load/spate/clock"
)

// phase is where a sequence is in its life in an engine.
type phase uint8

const (
	waiting  phase = iota // queued for prefill
	running               // holds one of the engine's slots: prefilling or decoding
	departed              // finished or cancelled
)

// sequence is one request as an engine sees it: so many tokens in, so many out.
type sequence struct {
	prompt   int
	output   int // at least 1
	produced int
	phase    phase
	// outlet takes the tokens to the one who waits for them. The engine itself never touches it.
	outlet *outlet
}

// emission is one token of a sequence, and the instant at which the model produces it. produced counts the sequence's tokens with
// this one.
type emission struct {
	seq      *sequence
	at       clock.Instant
	produced int
}

// engine is a discrete-event model of one serving engine. It has no clock: advance takes it to an instant, add and cancel act at the
// instant it is at. Two rules make it:
//
// Prefill is a queue of one server: prompts are taken first come, first served, as long as a slot of max_running is free, and take
// prompt / prefill rate. Its end produces the first token. It does not slow the decoding beside it.
//
// Decode goes in steps. The batch of a step is every sequence that has its first token when the step begins; the step takes
// DecodeStep + (batch-1) x DecodeStepPerRequest and then gives each of them one token. The next step begins at that very instant;
// if there is nothing to decode, at the next end of a prefill.
//
// At one instant ends of prefill come before the end of a step, and both before the begin of the next. It is not safe for concurrent
// use.
type engine struct {
	model Model
	now   clock.Instant

	queue      queue
	prefilling *sequence
	prefillEnd clock.Instant

	running int // sequences that hold a slot

	joining   []*sequence // have their first token and wait for the next step
	batch     []*sequence // of the step under way
	stepping  bool
	stepBegin clock.Instant // of the step under way, else of the next one if there is anything joining
	stepTime  time.Duration
	place     int // first of the batch that this step has not served yet
}

// add queues a sequence at the engine's present instant.
func (e *engine) add(s *sequence) {
	e.queue.push(s)
	e.startPrefill()
}

// cancel takes a sequence out, wherever it is. The step under way keeps its length, as a real one does. Cancelling one that has
// departed does nothing.
func (e *engine) cancel(s *sequence) {
	switch s.phase {
	case waiting:
		e.queue.drop(s)
	case running:
		e.depart(s)
		if e.prefilling == s {
			e.prefilling = nil
		}
		e.startPrefill()
	}
}

// next returns the instant of the next event, false if nothing will happen without a new sequence.
func (e *engine) next() (clock.Instant, bool) {
	at, ok := clock.Instant(0), false
	if e.stepping || len(e.joining) > 0 {
		at, ok = e.due(), true
	}
	if e.prefilling != nil && (!ok || e.prefillEnd < at) {
		at, ok = e.prefillEnd, true
	}
	return at, ok
}

// advance takes the engine to an instant and appends what it emits on the way, in order of time. An instant that has passed changes
// nothing.
func (e *engine) advance(to clock.Instant, dst []emission) []emission {
	for {
		at, ok := e.next()
		if !ok || at > to {
			e.now = max(e.now, to)
			return dst
		}
		e.now = max(e.now, at)
		dst = e.happen(dst)
	}
}

// happen carries out the one event that is due.
func (e *engine) happen(dst []emission) []emission {
	switch {
	case e.prefilling != nil && e.prefillEnd <= e.now:
		return e.endPrefill(dst)
	case !e.stepping:
		e.beginStep()
		return dst
	default:
		return e.serveStep(dst)
	}
}

// startPrefill takes the next prompt of the queue if prefill and a slot are free.
func (e *engine) startPrefill() {
	if e.prefilling != nil || e.running >= e.model.MaxRunning {
		return
	}
	s, ok := e.queue.pop()
	if !ok {
		return
	}
	s.phase = running
	e.running++
	e.prefilling = s
	e.prefillEnd = e.now.Add(e.model.prefillTime(s.prompt))
}

func (e *engine) endPrefill(dst []emission) []emission {
	s := e.prefilling
	e.prefilling = nil
	dst = e.emit(s, e.now, dst)
	if s.phase == running {
		if !e.stepping && len(e.joining) == 0 {
			e.stepBegin = e.now
		}
		e.joining = append(e.joining, s)
	}
	e.startPrefill()
	return dst
}

func (e *engine) beginStep() {
	e.batch = appendPresent(e.batch[:0], e.joining)
	e.joining = e.joining[:0]
	if len(e.batch) == 0 {
		return
	}
	e.stepping = true
	e.place = 0
	e.stepTime = e.model.stepTime(len(e.batch))
}

// due is the instant of the step's next emission, or of its begin.
func (e *engine) due() clock.Instant {
	switch {
	case !e.stepping:
		return e.stepBegin
	case e.model.SpreadStep:
		share := float64(e.place+1) / float64(len(e.batch))
		return e.stepBegin.Add(time.Duration(float64(e.stepTime) * share))
	default:
		return e.stepBegin.Add(e.stepTime)
	}
}

// serveStep gives the batch its tokens, all at once or the next of them only.
func (e *engine) serveStep(dst []emission) []emission {
	until := len(e.batch)
	if e.model.SpreadStep {
		until = e.place + 1
	}
	for _, s := range e.batch[e.place:until] {
		if s.phase == running {
			dst = e.emit(s, e.now, dst)
		}
	}
	e.place = until
	if until == len(e.batch) {
		e.endStep()
	}
	return dst
}

// endStep lets the sequences that are left go on together with those that have joined.
func (e *engine) endStep() {
	e.stepping = false
	e.stepBegin = e.stepBegin.Add(e.stepTime)
	e.batch = appendPresent(e.batch[:0], e.batch)
	e.batch = append(e.batch, e.joining...)
	e.batch, e.joining = e.joining[:0], e.batch
	e.startPrefill()
}

func (e *engine) emit(s *sequence, at clock.Instant, dst []emission) []emission {
	s.produced++
	if s.produced == s.output {
		e.depart(s)
	}
	return append(dst, emission{seq: s, at: at, produced: s.produced})
}

// depart frees the slot of a running sequence. The next prefill takes it when the event under way is over.
func (e *engine) depart(s *sequence) {
	s.phase = departed
	e.running--
}

func appendPresent(dst, from []*sequence) []*sequence {
	for _, s := range from {
		if s.phase == running {
			dst = append(dst, s)
		}
	}
	return dst
}

// maxPrefill keeps the arithmetic of instants from overflowing when a prefill is asked to take for ever.
const maxPrefill = 365 * 24 * time.Hour

// prefillTime is how long the prompt takes alone.
func (m Model) prefillTime(prompt int) time.Duration {
	ns := float64(prompt) / m.PrefillTokensPerSecond * float64(time.Second)
	return time.Duration(math.Round(min(ns, float64(maxPrefill))))
}

// stepTime is how long a decode step takes with so many sequences.
func (m Model) stepTime(batch int) time.Duration {
	return m.DecodeStep + time.Duration(batch-1)*m.DecodeStepPerRequest
}
