package supervisor

import (
	"fmt"
	"maps"
	"time"

	"github.com/spate-load/spate/agent/executor"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// lease is how long the agent continues without the coordinator. It counts from the sending of the last message that
// the coordinator is known to have received, not from the arrival of the answer. The coordinator cannot have received
// the message before it was sent, so it knows after which instant the agent starts nothing more, however long answers
// take. The zero value is for an agent that has not met a coordinator.
type lease struct {
	length    time.Duration // set by the coordinator
	helloSent clock.Instant // when the Hello of the last session was sent
	renewed   clock.Instant // when the last answered heartbeat was sent; 0: none
}

// of returns when an assignment's lease ends, and how long the lease is. Until a heartbeat is answered, the lease
// counts from the Hello of the session that brought the assignment.
func (l *lease) of(a *assignment) (end clock.Instant, length time.Duration) {
	length = l.length
	if a.lease > 0 {
		length = min(length, a.lease)
	}
	return max(a.helloSent, l.renewed).Add(length), length
}

// SetTerms sets the terms of a session whose Hello was sent at an instant. They do not renew the lease of an assignment
// under way.
func (r *Supervisor) SetTerms(hello clock.Instant, length time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expireLease()
	r.lease.length, r.lease.helloSent = length, hello
	r.watchLease()
}

// RenewLease records that a heartbeat, sent at an instant, was answered. A lease that has already ended stays ended.
func (r *Supervisor) RenewLease(sent clock.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expireLease()
	r.lease.renewed = max(r.lease.renewed, sent)
	r.watchLease()
}

// watchLease sets the timer and the fence for the end of the current assignment's lease. The caller holds r.mu.
func (r *Supervisor) watchLease() {
	if r.current == nil || r.current.ending || r.closed {
		return
	}
	end, _ := r.lease.of(r.current)
	if l := r.current.load; l != nil {
		l.SetFence(end)
	}
	if r.alarm == nil {
		r.alarm = time.AfterFunc(clock.Until(end), r.checkLease)
		return
	}
	r.alarm.Reset(clock.Until(end))
}

func (r *Supervisor) checkLease() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expireLease()
	r.watchLease()
}

// expireLease ends the current assignment if its lease has ended. The caller holds r.mu.
func (r *Supervisor) expireLease() {
	a := r.current
	if a == nil || a.ending {
		return
	}
	end, length := r.lease.of(a)
	if clock.Now() < end {
		return
	}
	LoggerOf(a.ref, r.logger).Warn("coordinator gone for longer than the lease: draining", "lease", length)
	r.finish(func(l *executor.Load) {
		l.Fail(spatev1.FailureKind_FAILURE_KIND_AGENT, false,
			fmt.Sprintf("the coordinator was gone for longer than the lease of %v", length))
	})
}

// secrets are the values of one run's secret references, in memory only. A restarted coordinator no longer has them;
// the agent then uses the values that came with earlier stages of the run. The zero value is empty. It is not safe for
// concurrent use.
type secrets struct {
	run    string
	values map[string]string
}

// with stores the values that came with an assignment, and returns all known values of its run. It forgets the values
// of any other run.
func (s *secrets) with(run string, came map[string]string) map[string]string {
	if s.run != run {
		s.run, s.values = run, nil
	}
	if s.values == nil {
		s.values = map[string]string{}
	}
	maps.Copy(s.values, came)
	return maps.Clone(s.values)
}
