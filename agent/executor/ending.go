package executor

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// steadySince marks the end of the ramp-up, once. A load that varies over its phases is never steady.
func (l *Load) steadySince(at clock.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.steadyFrom == 0 && !l.Varies {
		l.steadyFrom = at
	}
}

// steadyUntil marks the end of what is measured at full load, once. The caller holds l.mu.
func (l *Load) steadyUntil(at clock.Instant) {
	if l.steadyTo == 0 && !l.Varies {
		l.steadyTo = at
	}
}

// coolDown marks that an unmeasured arrival has followed the last measured one: cool-down has begun.
func (l *Load) coolDown(last clock.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steadyUntil(last)
}

// expectTurn notes that a turn of a session is due at an instant. The drain timeout counts from the stage's last start,
// so during a drain expectTurn extends the deadline.
func (l *Load) expectTurn(turn clock.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latest = max(l.latest, turn)
	if l.draining != nil && l.starting.Err() == nil {
		l.cancelAt(max(l.deadline, turn.Add(l.drainTimeout())))
	}
}

// drain stops new arrivals: nothing starts from since on, except turns of sessions already begun. Requests in flight
// may continue for the drain timeout. Only the first call counts.
func (l *Load) drain(since clock.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drainLocked(since)
}

func (l *Load) drainLocked(since clock.Instant) {
	if l.draining == nil {
		l.stopTaking()
		l.steadyUntil(since)
		l.cancelAt(max(since, l.latest).Add(l.drainTimeout()))
	}
}

// cancelAt sets when requests in flight are cancelled. The caller holds l.mu.
func (l *Load) cancelAt(deadline clock.Instant) {
	l.deadline = deadline
	if l.draining == nil {
		l.draining = time.AfterFunc(clock.Until(deadline), l.cancel)
		return
	}
	l.draining.Reset(clock.Until(deadline))
}

func (l *Load) drainTimeout() time.Duration { return l.Assigned.GetDrainTimeout().AsDuration() }

// endDrain releases the timers and contexts that drain and stop use.
func (l *Load) endDrain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range []*time.Timer{l.draining, l.closing} {
		if t != nil {
			t.Stop()
		}
	}
	l.timeEnd = 0 // timeOver may be waiting for the lock
	l.stopTaking()
	l.stopStarting()
	l.cancel()
}

// Stop ends the load because the coordinator said so. It does not wait, and may be called at any time. The first reason
// for an end counts, but a later stop may still cancel requests at once. enough: the stage has measured enough, and the
// end is a regular one.
func (l *Load) Stop(immediately, enough bool) {
	l.end(immediately, func() { l.stopped, l.enough = !enough, enough })
}

// Leave ends the agent's part of the load because the agent is leaving: what it has begun ends as it would otherwise,
// sessions with all their turns, and nothing starts that others can take over. In an open loop a revision of the stripe
// says from when on that is everything, in a closed loop it is all that has not begun. Leave may be called at any time
// from any goroutine, and does not wait for the end.
func (l *Load) Leave() {
	l.mu.Lock()
	l.leaving = true
	if l.Closed != nil {
		l.Closed.Leave()
		l.stopTaking()
	}
	l.mu.Unlock()
	l.EndWait()
	l.revising.Lock()
	defer l.revising.Unlock()
	if l.Closed == nil && l.revised != nil {
		l.revised() // a loop that waits for something to take over waits in vain
	}
}

// leaves reports whether the agent is leaving.
func (l *Load) leaves() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaving
}

// Fail ends the load because of the agent or the target. Otherwise it is like stop.
func (l *Load) Fail(kind spatev1.FailureKind, immediately bool, failure string) {
	l.end(immediately, func() { l.failure, l.failureKind = failure, kind })
}

// end ends the load early, and calls why if nothing has ended it yet. Sessions take no further turn, so the requests in
// flight are the last.
func (l *Load) end(immediately bool, why func()) {
	l.mu.Lock()
	now, ended := clock.Now(), l.draining != nil
	l.drainLocked(now)
	if l.starting.Err() == nil {
		why()
		l.cutShort = !ended
		l.cancelAt(min(l.deadline, now.Add(l.drainTimeout())))
	}
	l.stopStarting()
	l.mu.Unlock()
	if immediately {
		l.cancel()
	}
	l.EndWait()
}

// rateCheck counts the requests that a load starts in each whole second of its stage. It is for loads whose schedule
// does not tell: closed loops and replays. The zero value allows any number. It is safe for concurrent use.
type rateCheck struct {
	max float64 // requests in a second; 0: no limit

	// The upper 32 bits hold the second, the lower 32 bits its requests.
	seconds atomic.Uint64
}

// countStart counts a request that starts that long after the stage's start, and returns why the load must end, or "".
// It returns a reason at most once a second.
func (c *rateCheck) countStart(since time.Duration) string {
	if c.max == 0 {
		return ""
	}
	second := uint64(max(since, 0) / time.Second)
	for {
		held := c.seconds.Load()
		next := second<<32 + 1
		if held>>32 >= second { // a goroutine that was delayed counts in the current second
			next = held + 1
		}
		if !c.seconds.CompareAndSwap(held, next) {
			continue
		}
		if n := float64(next & (1<<32 - 1)); n > c.max && n-1 <= c.max {
			return fmt.Sprintf("this agent started more requests in second %d than its limit of %.6g per second: "+
				"raise its max rate, lower the load or add agents", next>>32, c.max)
		}
		return ""
	}
}

// countInSecond counts a request that starts, and ends the load if a second has more of them than the agent may start.
func (l *Load) countInSecond(at clock.Instant) {
	if why := l.rateCheck.countStart(at.Sub(l.start)); why != "" {
		l.Fail(spatev1.FailureKind_FAILURE_KIND_AGENT, false, why)
	}
}

// deadFailures is the minimum number of consecutive failures to connect that make a target dead.
const deadFailures = 10

// deadCheck detects a dead target: nothing but failures to connect, for long enough. It is safe for concurrent use.
type deadCheck struct {
	minTime time.Duration

	mu       sync.Mutex
	failures int
	since    clock.Instant // start of the first failure of the current row
}

// unreachable reports whether a request failed before it had a connection.
func unreachable(err *stream.Error) bool {
	return err != nil &&
		(err.Class == spatev1.ErrorClass_ERROR_CLASS_CONNECT || err.Class == spatev1.ErrorClass_ERROR_CLASS_TLS)
}

// observe records the end of a request and returns why the target is dead, or "". A token that any stream received
// since the row of failures began is a sign of life, too: lastToken returns when the last token came, and is called
// only when needed.
func (c *deadCheck) observe(o *stream.Observation, lastToken func() clock.Instant) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case o.Cancelled:
		return ""
	case !unreachable(o.Err):
		c.failures = 0
		return ""
	case c.failures == 0:
		c.since = o.Start
	}
	c.failures++
	lasted := o.End.Sub(c.since)
	if c.failures < deadFailures || lasted < c.minTime {
		return ""
	}
	if last := lastToken(); last >= c.since {
		c.failures = 0
		return ""
	}
	return fmt.Sprintf("no connection in %v and %d attempts: %s",
		lasted.Round(time.Millisecond), c.failures, o.Err.Message)
}

// hopelessAfter is how many of a load's first requests decide whether its target is hopeless. These are the requests
// that start first, not those that end first: a server that accepts some requests and rejects the rest is not hopeless,
// although the rejected ones end first.
const hopelessAfter = 20

// hopelessCheck detects a hopeless target: the load's first requests have all failed in the same way. It is safe for
// concurrent use.
type hopelessCheck struct {
	started atomic.Int32 // how many of the first requests have started

	mu      sync.Mutex
	failed  int
	way     failing
	healthy bool // one has succeeded, was cancelled, or failed in another way
}

// failing is a way to fail.
type failing struct {
	class  spatev1.ErrorClass
	status int
}

// disable turns the detection off.
func (c *hopelessCheck) disable() { c.started.Store(hopelessAfter) }

// countStart counts a request that starts, and reports whether it is one of the first.
func (c *hopelessCheck) countStart() bool {
	return c.started.Load() < hopelessAfter && c.started.Add(1) <= hopelessAfter
}

// ended records the end of one of the first requests. It returns why the target is hopeless, or "".
func (c *hopelessCheck) ended(o *stream.Observation) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.Cancelled || o.Err == nil {
		c.healthy = true
		return ""
	}
	way := failing{o.Err.Class, o.Err.HTTPStatus}
	if c.failed == 0 {
		c.way = way
	}
	c.healthy = c.healthy || way != c.way
	if c.failed++; c.healthy || c.failed < hopelessAfter {
		return ""
	}
	return fmt.Sprintf("its first %d requests all failed in the same way: %s", c.failed, o.Err.Message)
}
