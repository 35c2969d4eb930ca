package arrival

import (
	"errors"
	"fmt"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Open is the schedule of an open loop: requests start when it says, whatever the server does. Measure and Revise may
// be called at any time from any goroutine; the rest is not safe for concurrent use. Nothing blocks.
type Open interface {
	// Next returns the share's next arrival, ascending in index and offset but where Renew goes back, and false when
	// the schedule is over.
	//
	// With a warm-up until steady, ask for the arrival behind another one only when that is about to start: how the
	// schedule goes on is only known once Measure was called. A schedule that still waits for it returns one arrival
	// beyond warmup_until_steady and MeasureSlack, and is over when asked for another.
	Next() (Arrival, bool)
	// Settle returns an arrival, that Next has returned before, as it is to be started now, and false if it is not to
	// be: a Measure that came in between may have made it a measured one, or the first that lies beyond the end, and
	// what Renew has taken in may have made it another agent's. Of loads without a warm-up until steady arrivals stay
	// as they are otherwise.
	Settle(a Arrival) (Arrival, bool)
	// Measure ends a warm-up until steady: arrivals are measured from this offset on, and requests and duration count
	// from there. Of several calls the first counts. An offset beyond warmup_until_steady and MeasureSlack is taken as
	// that one. Other loads ignore it.
	Measure(from time.Duration)
	// Revise says what the share is from now on: what Share.Revised made of the one before. It has no effect before
	// Renew.
	Revise(s Share)
	// Renew takes in what was said to Revise since, and reports whether there was anything. If so, the arrival that
	// Next returned last is taken back: Next goes on with all arrivals that are the share's now and that it has not
	// returned before that one, those first that it had passed by. Others that Next has returned and that were not
	// started are to be asked Settle about, and not to be started where it says so: if they come back later, Next
	// returns them again.
	Renew() bool
	// Left returns how many measured arrivals Next is still to return, if the load is Counted, and ends the schedule.
	// It takes a few nanoseconds for each arrival of the whole stage that has not come.
	Left() uint64
	// End returns the offset of the last arrival of the whole stage that has passed: once Next has returned false,
	// where the schedule ends.
	End() time.Duration
	// Err returns why the schedule ended before its end, nil if it did not. It is known once Next has returned false.
	Err() error
}

// NewOpen returns the share's part of a load point's schedule, from its begin. An executor that stops early can go on
// calling Next to count what it left unsent.
//
// With requests, that many arrivals are measured; Poisson and gamma ones take exactly requests / rate, unless the load
// is unconditioned (see conditioned). With a duration, arrivals before the end of the measured span are measured. The
// span begins when the warm-up has passed: at warmup_duration, at what Measure says, or at the offset of the first
// arrival beyond warmup_requests if that is later. An arrival at the very end of the span is outside. With both,
// whichever ends first. Unmeasured arrivals follow for the cool-down, then the schedule ends. Phases end it in any
// case, and their last part is the cool-down. All of that is a function of the whole schedule, so that every agent ends
// at the same arrival.
//
// The load's split says which arrivals are the share's: see draws.
func NewOpen(load *spatev1.LoadPoint, seed uint64, s Share) (Open, error) {
	if load.GetConcurrency() != 0 || load.GetReplaySpeed() != 0 {
		return nil, fmt.Errorf("arrival: a load of concurrency %d and replay speed %v is no open loop of a rate",
			load.GetConcurrency(), load.GetReplaySpeed())
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
	source, err := newSource(load, phases, seed, &l)
	if err != nil {
		return nil, err
	}
	d, err := drawsOf(load, seed)
	if err != nil {
		return nil, err
	}
	return newWalk(source, l, s, d), nil
}

// maxRate is where arrivals would be a nanosecond apart.
const maxRate = 1e9

// process gives the offset of each arrival of the whole stage.
type process interface {
	// next returns the offset of the next index, never less than the one before; errOver after the last one, or if no
	// time.Duration can hold it.
	next() (time.Duration, error)
	// copyTo returns a copy of the process where it stands. It may use the memory of an earlier copy.
	copyTo(used process) process
}

// errOver is the regular end of a process.
var errOver = errors.New("arrival: over")

// source makes a process from its begin.
type source func() process

// newSource returns the load's arrival process.
func newSource(load *spatev1.LoadPoint, phases []phase, seed uint64, l *limits) (source, error) {
	g, err := newGaps(load, seed)
	if err != nil {
		return nil, err
	}
	if len(phases) > 0 {
		return func() process { return newRamp(phases, newBase(g)) }, nil
	}
	rate := load.GetRate()
	if !(rate > 0 && rate <= maxRate) {
		return nil, fmt.Errorf("arrival: a rate of %v per second cannot be: it must be positive and at most %.0e", rate,
			float64(maxRate))
	}
	if g == nil {
		return func() process { return newConstant(rate) }, nil
	}
	if !load.GetUnconditioned() {
		if stretches := condition(g, rate, l); stretches != nil {
			return func() process { return &conditioned{base: newBase(g), stretches: stretches} }, nil
		}
	}
	return func() process { return &renewal{gaps: g, rate: rate} }, nil
}
