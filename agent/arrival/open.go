package arrival

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Open is the schedule of an open loop: requests start when it says, whatever the server does. Measure may be called at any time
// from any goroutine; the rest is not safe for concurrent use. Nothing blocks.
type Open interface {
	// Next returns the stripe's next arrival, ascending in index and offset, and false when the schedule is over.
	//
	// With a warm-up until steady, ask for the arrival behind another one only when that is about to start: how the schedule
	// goes on is only known once Measure was called. A schedule that still waits for it returns one arrival beyond
	// warmup_until_steady and MeasureSlack, and is over when asked for another.
	Next() (Arrival, bool)
	// Settle returns an arrival, that Next has returned before, as it is to be started now, and false if it is not to be: a
	// Measure that came in between may have made it a measured one, or the first that lies beyond the end. Of loads
	// without a warm-up until steady arrivals stay as they are.
	Settle(a Arrival) (Arrival, bool)
	// Measure ends a warm-up until steady: arrivals are measured from this offset on, and requests and duration count from
	// there. Of several calls the first counts. An offset beyond warmup_until_steady and MeasureSlack is taken as that one.
	// Other loads ignore it.
	Measure(from time.Duration)
	// Err returns why the schedule ended before its end, nil if it did not. It is known once Next has returned false.
	Err() error
}

// NewOpen returns the stripe's part of a load point's schedule, from its begin. An executor that stops early can go on
// calling Next to count what it left unsent.
//
// With requests, so many arrivals are measured. With a duration, those are that lie before the end of the span that begins
// when the warm-up has passed: at warmup_duration, at what Measure says, or at the offset of the first arrival beyond
// warmup_requests if that is later. An arrival at the very end of the span is outside. With both, whichever ends first. Then
// come unmeasured arrivals for the cool-down, and then the schedule ends. With phases it ends with them in any case, and
// the cool-down is their last part. All of that is a function of the whole schedule, so that every agent ends at the same
// arrival.
func NewOpen(load *spatev1.LoadPoint, seed uint64, s Stripe) (Open, error) {
	if load.GetConcurrency() != 0 || load.GetReplaySpeed() != 0 {
		return nil, fmt.Errorf("arrival: a load of concurrency %d and replay speed %v is no open loop of a rate", load.GetConcurrency(), load.GetReplaySpeed())
	}
	phases, err := newPhases(load.GetPhases(), maxRate)
	if err != nil {
		return nil, err
	}
	l, err := limitsOf(load, len(phases) > 0)
	if err != nil {
		return nil, err
	}
	if len(phases) > 0 {
		if l, err = l.endingAt(phases[len(phases)-1].end()); err != nil {
			return nil, err
		}
	}
	source, err := newSource(load, phases, seed)
	if err != nil {
		return nil, err
	}
	return newWalk(source, l, s), nil
}

// maxRate is where arrivals would be a nanosecond apart.
const maxRate = 1e9

// process gives the offset of each arrival of the whole stage.
type process interface {
	// next returns the offset of the next index, never less than the one before; errOver after the last one, or if no
	// time.Duration can hold it.
	next() (time.Duration, error)
}

// errOver is the regular end of a process.
var errOver = errors.New("arrival: over")

// source makes a process from its begin.
type source func() process

// newSource returns the load's arrival process.
func newSource(load *spatev1.LoadPoint, phases []phase, seed uint64) (source, error) {
	g, err := newGaps(load, seed)
	if err != nil {
		return nil, err
	}
	if len(phases) > 0 {
		return func() process { return newRamp(phases, newBase(g)) }, nil
	}
	rate := load.GetRate()
	if !(rate > 0 && rate <= maxRate) {
		return nil, fmt.Errorf("arrival: a rate of %v per second cannot be: it must be positive and at most %.0e", rate, float64(maxRate))
	}
	if g == nil {
		return func() process { return newConstant(rate) }, nil
	}
	return func() process { return &renewal{gaps: g, rate: rate} }, nil
}

// walk goes through the whole stage's schedule and stops at the stripe's indices. It takes the same memory for any number of
// them.
type walk struct {
	source  source
	process process
	course  course
	stripe  Stripe
	index   uint64        // of the arrival that comes next
	own     uint64        // the stripe's next index
	owned   uint64        // indices of the stripe that have passed
	latest  time.Duration // offset of the last arrival that has passed
	over    bool
	err     error
	from    atomic.Int64 // what Measure said; unheard: nothing
}

// unheard is no offset.
const unheard = -1

// newWalk begins at the first arrival.
func newWalk(src source, l limits, s Stripe) *walk {
	first, some := s.Next(0)
	w := &walk{source: src, process: src(), course: course{limits: l, quota: l.requests}, stripe: s, own: first, over: !some}
	w.from.Store(unheard)
	return w
}

// Next returns the stripe's next arrival.
func (w *walk) Next() (Arrival, bool) {
	w.hear()
	if l := &w.course.limits; l.pending && w.latest >= l.warmupDuration {
		w.over = true
	}
	for !w.over {
		a, more := w.step()
		if !more {
			w.over = true
			break
		}
		if a.Index == w.own {
			w.owned++
			w.own = w.stripe.At(w.owned)
			return a, true
		}
	}
	return Arrival{}, false
}

// step returns the next arrival of the whole stage.
func (w *walk) step() (Arrival, bool) {
	offset, err := w.process.next()
	if err != nil {
		w.err = err
		return Arrival{}, false
	}
	unmeasured, more := w.course.take(w.index, offset)
	if !more {
		return Arrival{}, false
	}
	a := Arrival{Index: w.index, Offset: offset, Unmeasured: unmeasured}
	w.index++
	w.latest = offset
	return a, true
}

// Settle returns an arrival as it is to be started.
func (w *walk) Settle(a Arrival) (Arrival, bool) {
	w.hear()
	unmeasured, more := w.course.recall(a.Index, a.Offset)
	a.Unmeasured = unmeasured
	return a, more
}

// Measure says from when on arrivals are measured.
func (w *walk) Measure(from time.Duration) { w.from.CompareAndSwap(unheard, int64(max(from, 0))) }

// hear takes in what Measure said, once. Arrivals that have passed and turn out to be measured ones are counted by walking there
// again: it is the rare case, of an arrival so far ahead that it was asked for before Measure came.
func (w *walk) hear() {
	l := &w.course.limits
	if !l.pending || w.from.Load() == unheard {
		return
	}
	l.pending = false
	l.warmupDuration = min(time.Duration(w.from.Load()), l.warmupDuration)
	if w.latest < l.warmupDuration {
		return
	}
	passed := w.index
	w.course = course{limits: *l, quota: l.requests}
	w.process, w.index = w.source(), 0
	for w.index < passed {
		if _, more := w.step(); !more {
			w.over = true
			return
		}
	}
}

// Err returns why the schedule ended before its end.
func (w *walk) Err() error {
	if errors.Is(w.err, errOver) {
		return nil
	}
	return w.err
}
