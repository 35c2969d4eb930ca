package arrival

import (
	"fmt"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Open is the schedule of an open loop: requests start when it says, whatever the server does. It is not safe for concurrent
// use.
type Open interface {
	// Next returns the stripe's next arrival, ascending in index and offset, and false when the schedule is over. It never
	// blocks.
	Next() (Arrival, bool)
}

// NewOpen returns the stripe's part of a load point's schedule, from its begin. An executor that stops early can go on
// calling Next to count what it left unsent.
//
// With requests, the stage ends after so many that are not warm-up. With a duration, it ends where the span does that begins
// when the warm-up has passed: at warmup_duration, or at the offset of the first arrival beyond warmup_requests if that is
// later. An arrival at the very end of the span is outside. With both, whichever is first. All of that is a function of the
// whole schedule, so that every agent ends at the same arrival.
func NewOpen(load *spatev1.LoadPoint, seed uint64, s Stripe) (Open, error) {
	if load.GetConcurrency() != 0 {
		return nil, fmt.Errorf("arrival: a load of concurrency %d is no open loop", load.GetConcurrency())
	}
	l, err := limitsOf(load)
	if err != nil {
		return nil, err
	}
	if rate := load.GetRate(); !(rate > 0 && rate <= maxRate) {
		return nil, fmt.Errorf("arrival: a rate of %v per second cannot be: it must be positive and at most %.0e", rate, float64(maxRate))
	}
	p, err := newProcess(load, seed)
	if err != nil {
		return nil, err
	}
	first, some := s.Next(0)
	return &walk{process: p, limits: l, stripe: s, own: first, over: !some}, nil
}

// maxRate is where arrivals would be a nanosecond apart.
const maxRate = 1e9

// process gives the offset of each arrival of the whole stage.
type process interface {
	// next returns the offset of the next index, never less than the one before, and false if no time.Duration can hold it.
	next() (time.Duration, bool)
}

// newProcess returns the load's arrival process.
func newProcess(load *spatev1.LoadPoint, seed uint64) (process, error) {
	switch load.GetArrival() {
	case "poisson":
		return newPoisson(load.GetRate(), seed), nil
	case "constant":
		return newConstant(load.GetRate()), nil
	default:
		return nil, fmt.Errorf("arrival: no arrival process is called %q: use poisson or constant", load.GetArrival())
	}
}

// walk goes through the whole stage's schedule and stops at the stripe's indices. It takes the same memory for any number of
// them.
type walk struct {
	process  process
	limits   limits
	timer    timer
	stripe   Stripe
	index    uint64 // of the arrival that comes next
	own      uint64 // the stripe's next index
	owned    uint64 // indices of the stripe that have passed
	measured uint64 // arrivals of all agents beyond the warm-up that have passed
	over     bool
}

// Next returns the stripe's next arrival.
func (w *walk) Next() (Arrival, bool) {
	for !w.over {
		a, ok := w.step()
		if !ok {
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
	offset, ok := w.process.next()
	if !ok || w.timer.over(&w.limits, w.index, offset) {
		return Arrival{}, false
	}
	a := Arrival{Index: w.index, Offset: offset, Unmeasured: w.limits.warmup(w.index, offset)}
	if !a.Unmeasured {
		if w.limits.requests != 0 && w.measured == w.limits.requests {
			return Arrival{}, false
		}
		w.measured++
	}
	w.index++
	return a, true
}
