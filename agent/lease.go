package agent

import (
	"fmt"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// lease is how long the agent goes on by itself. It counts from when the agent sent the last message that is known to
// have been heard, not from when the answer came: so the coordinator, which heard that message no earlier than it was
// sent, knows from when on the agent starts nothing more, however long answers are under way. Its zero value is of an
// agent that has met no coordinator.
type lease struct {
	length  time.Duration // the coordinator's word
	greeted clock.Instant // sending of the Hello of the last session
	renewed clock.Instant // sending of the last heartbeat that was answered; 0: none was
}

// of returns when an assignment's lease ends, and how long it is. Before its first heartbeat was answered it counts
// from the Hello of the session in which it came.
func (l *lease) of(a *assignment) (end clock.Instant, length time.Duration) {
	length = l.length
	if a.lease > 0 {
		length = min(length, a.lease)
	}
	return max(a.given, l.renewed).Add(length), length
}

// greeted takes in the terms of a session whose Hello was sent at an instant. They do not renew the lease of an
// assignment under way.
func (d *desk) greeted(hello clock.Instant, length time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire()
	d.lease.length, d.lease.greeted = length, hello
	d.watchLease()
}

// renew takes in that a heartbeat, sent at an instant, was answered. A lease that has ended before stays ended.
func (d *desk) renew(sent clock.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire()
	d.lease.renewed = max(d.lease.renewed, sent)
	d.watchLease()
}

// watchLease sees to it that the end of the current assignment's lease is noticed. The desk is locked.
func (d *desk) watchLease() {
	if d.current == nil || d.current.ending || d.closed {
		return
	}
	end, _ := d.lease.of(d.current)
	if l := d.current.load; l != nil {
		l.fence.Store(int64(end))
	}
	if d.alarm == nil {
		d.alarm = time.AfterFunc(clock.Until(end), d.checkLease)
		return
	}
	d.alarm.Reset(clock.Until(end))
}

func (d *desk) checkLease() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire()
	d.watchLease()
}

// expire ends whatever the agent works on if its lease has ended. The desk is locked.
func (d *desk) expire() {
	a := d.current
	if a == nil || a.ending {
		return
	}
	end, length := d.lease.of(a)
	if clock.Now() < end {
		return
	}
	d.logger.Warn("coordinator gone for longer than the lease: draining", "lease", length, "assignment",
		describe(a.ref))
	d.finish(func(l *load) {
		l.fail(spatev1.FailureKind_FAILURE_KIND_AGENT, false,
			fmt.Sprintf("the coordinator was gone for longer than the lease of %v", length))
	})
}

// mayStart reports whether a request may be started now, and ends the load if not. A timer that ends it at the fence is
// not enough: a process that stood still would send what it missed before it hears its timers, when all that is another
// agent's.
func (l *load) mayStart() bool {
	if fence := clock.Instant(l.fence.Load()); fence == 0 || clock.Now() < fence {
		return true
	}
	l.lapsed()
	return false
}
