package agent

import (
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// steadySince marks the end of the ramp-up, once. A load that is to change all the time is never steady.
func (l *load) steadySince(at clock.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.steadyFrom == 0 && !l.varies {
		l.steadyFrom = at
	}
}

// steadyUntil marks the end of what is measured at full load, once. l.mu is locked.
func (l *load) steadyUntil(at clock.Instant) {
	if l.steadyTo == 0 && !l.varies {
		l.steadyTo = at
	}
}

// cool marks that cool-down has followed the last measured arrival.
func (l *load) cool(last clock.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steadyUntil(last)
}

// expect says that a turn of a session is to come: it is one of the stage's starts, from which the drain timeout
// counts.
func (l *load) expect(turn clock.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latest = max(l.latest, turn)
	if l.draining != nil && l.starting.Err() == nil {
		l.cancelAt(max(l.deadline, turn.Add(l.drainTimeout())))
	}
}

// drain marks that nothing more is to be started since an instant, but for turns of sessions that were begun. What is
// in flight may go on for the drain timeout. Only the first call counts.
func (l *load) drain(since clock.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drainLocked(since)
}

func (l *load) drainLocked(since clock.Instant) {
	if l.draining == nil {
		l.stopTaking()
		l.steadyUntil(since)
		l.cancelAt(max(since, l.latest).Add(l.drainTimeout()))
	}
}

// cancelAt sets when requests in flight are cancelled. l.mu is locked.
func (l *load) cancelAt(deadline clock.Instant) {
	l.deadline = deadline
	if l.draining == nil {
		l.draining = time.AfterFunc(clock.Until(deadline), l.cancel)
		return
	}
	l.draining.Reset(clock.Until(deadline))
}

func (l *load) drainTimeout() time.Duration { return l.stage.GetDrainTimeout().AsDuration() }

// endDrain frees what drain and stop need.
func (l *load) endDrain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range []*time.Timer{l.draining, l.closing} {
		if t != nil {
			t.Stop()
		}
	}
	l.stopTaking()
	l.stopStarting()
	l.cancel()
}

// stop ends the load on the coordinator's word. It does not wait and may be called at any time; of several reasons for
// an end the first counts, but a stop may become immediate later. Enough: the end is a regular one.
func (l *load) stop(immediately, enough bool) {
	l.end(immediately, func() { l.stopped, l.enough = !enough, enough })
}

// fail ends the load for a reason of the agent's or of the target, and is as stop otherwise.
func (l *load) fail(kind spatev1.FailureKind, immediately bool, failure string) {
	l.end(immediately, func() { l.failure, l.failureKind = failure, kind })
}

// end ends the load before its end, and keeps why if nothing has ended it yet. Sessions take no further turn, so that
// what is in flight then is the last.
func (l *load) end(immediately bool, why func()) {
	l.mu.Lock()
	now := clock.Now()
	l.drainLocked(now)
	if l.starting.Err() == nil {
		why()
		l.cancelAt(min(l.deadline, now.Add(l.drainTimeout())))
	}
	l.stopStarting()
	l.mu.Unlock()
	if immediately {
		l.cancel()
	}
	l.waitNoMore()
}
