// Package schedule computes when requests start: the schedule of a whole stage, and one agent's part of it.
//
// NewOpen makes the schedule of a rate: constant, Poisson or gamma arrivals, at one rate or over phases. NewReplay uses
// the times of a trace. NewClosed keeps a concurrency, constant or over phases, with think times. All have the same
// warm-up, measured part and cool-down.
//
// Everything here is a pure function of the load point, the stage's seed, the agent's share and, with a warm-up until
// steady, the moment at which measuring begins. Every agent computes the same schedule and takes its own indices, in
// turn or by a random draw. So the union over all agents is exactly what one machine would do, however many agents
// there are and however unequal. The package sends nothing, waits for nothing and reads no clock: the agent's executor
// asks it what comes next.
package schedule

import (
	"fmt"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Open is the schedule of an open loop: requests start at its arrivals, whatever the server does. Measure and Revise
// may be called at any time from any goroutine. The other methods are not safe for concurrent use. No method blocks.
type Open interface {
	// Next returns the share's next arrival, and false when the schedule is over. Indices and offsets ascend, except
	// after Renew.
	//
	// With a warm-up until steady, call Next only when the last arrival is about to start: the rest of the schedule is
	// known only after Measure was called. A schedule that still waits for Measure returns one arrival beyond
	// warmup_until_steady plus MeasureSlack, and is over at the next call.
	Next() (Arrival, bool)
	// Settle returns an arrival that Next returned earlier, as it must be started now. It returns false if the arrival
	// must not be started. A Measure in between may have made the arrival measured, or placed it beyond the end. A
	// Renew in between may have given it to another agent. Without a warm-up until steady and without Renew, arrivals
	// do not change.
	Settle(a Arrival) (Arrival, bool)
	// Measure ends a warm-up until steady: arrivals are measured from this offset on, and requests and duration count
	// from there. An offset beyond warmup_until_steady plus MeasureSlack is reduced to that. A further call moves the
	// offset, at the next Renew; no arrival at either offset or later may have started by then. It returns the offset,
	// and false for other loads, which ignore Measure.
	Measure(from time.Duration) (at time.Duration, measures bool)
	// Revise sets the new share, which must come from Share.Revised. It has no effect before Renew.
	Revise(s Share)
	// Renew switches to the share that Revise set, and to an offset that Measure has moved, and reports whether there
	// was either. If so, the arrival that Next returned last is taken back. Next then continues with all arrivals of
	// the new share that it had not returned before that one, including earlier arrivals that it had passed over. The
	// caller must pass other arrivals that Next has returned and that were not started to Settle, and must not start
	// those for which Settle returns false.
	// If such an arrival becomes the share's again, Next returns it again.
	Renew() bool
	// Left returns how many measured arrivals Next would still return, and ends the schedule. It takes a few
	// nanoseconds for each remaining arrival of the whole stage.
	Left() uint64
	// End returns the offset of the last arrival of the whole stage that has passed. After Next has returned false,
	// this is the end of the schedule.
	End() time.Duration
	// Err returns why the schedule ended early, nil if it did not. Call it after Next has returned false.
	Err() error
}

// NewOpen returns the share's part of a load point's schedule, from its start. An executor that stops early can keep
// calling Next to count the arrivals that it never sent.
//
// With requests, that many arrivals are measured; Poisson and gamma arrivals take exactly requests / rate (see
// conditioned). With a duration, arrivals before the end of the measured span are measured.
// The span begins when the warm-up has passed: at warmup_duration, at the offset given to Measure, or at the offset of
// the first arrival beyond warmup_requests if that is later. An arrival at the very end of the span is not measured.
// With both, the measured part ends with whichever comes first. Unmeasured arrivals follow for the cool-down, then the
// schedule ends. Phases always end the schedule, and their last part is the cool-down. All of this depends only on the
// whole schedule, so every agent ends at the same arrival.
//
// The load's split decides which arrivals are the share's: see draws.
func NewOpen(load *spatev1.LoadPoint, seed uint64, s Share) (Open, error) {
	if load.GetConcurrency() != 0 || load.GetReplaySpeed() != 0 {
		return nil, fmt.Errorf("schedule: a load of concurrency %d and replay speed %v is not an open loop with a rate",
			load.GetConcurrency(), load.GetReplaySpeed())
	}
	phases, err := newPhases(load.GetPhases(), maxRate)
	if err != nil {
		return nil, err
	}
	var end time.Duration
	if len(phases) > 0 {
		end = phases[len(phases)-1].end()
	}
	l, err := limitsOf(load, len(phases) > 0, end)
	if err != nil {
		return nil, err
	}
	p, err := newProcess(load, phases, seed, &l)
	if err != nil {
		return nil, err
	}
	d, err := drawsOf(load, seed)
	if err != nil {
		return nil, err
	}
	return newWalk(p, l, s, d), nil
}
