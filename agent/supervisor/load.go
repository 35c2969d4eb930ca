package supervisor

import (
	"fmt"
	"time"

	"github.com/spate-load/spate/agent/executor"
	"github.com/spate-load/spate/agent/outbox"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// maxStartDistance bounds how far from now a start may be: no stage is planned that far ahead or lasts that long.
const maxStartDistance = 10 * 365 * 24 * time.Hour

// Arm sets the start of the assignment, on this machine's clock, and begins to wait for it. Arming twice changes
// nothing. The error says what the coordinator has wrong about this agent.
func (r *Supervisor) Arm(m *spatev1.Arm, start clock.Instant, uncertainty time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ref := r.current, m.GetRef()
	switch {
	case r.closed || a == nil && r.finished != nil && sameStage(r.finished.ref, ref):
		return nil
	case a == nil || !sameStage(a.ref, ref):
		return fmt.Errorf("%s was armed, but is not assigned", Describe(ref))
	case a.ready == nil:
		return fmt.Errorf("%s was armed before it was ready", Describe(ref))
	case a.load != nil:
		return nil
	case clock.Until(start) > maxStartDistance || clock.Until(start) < -maxStartDistance:
		return fmt.Errorf("%s was armed for a start %v from now", Describe(ref), clock.Until(start))
	}
	c := executor.Config{
		Start: start, Uncertainty: uncertainty, NewWatch: r.newWatch,
		Emit:   func(s *spatev1.Snapshot) { r.emit(a, s) },
		Expire: r.checkLease, RequestHeartbeat: r.RequestHeartbeat,
	}
	if a.rate == 0 { // the schedule does not tell the rate
		c.MaxRate = r.resources.Limits.MaxRate
	}
	a.load = executor.New(a.ready, c)
	r.watchLease()
	if a.from != nil {
		a.load.Measure(*a.from, nil)
	}
	r.work.Go(func() {
		defer a.ready.Close()
		a.load.Run()
	})
	return nil
}

// emit puts a snapshot of an assignment into the outbox. The assignment is over with its totals, and the next one may
// start.
func (r *Supervisor) emit(a *assignment, s *spatev1.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logPressure(a, r.outbox.Add(a.ref, s))
	if s.GetTotals() == nil {
		return
	}
	r.current, r.finished = nil, a
	if next := r.next; next != nil {
		r.next = nil
		r.startPreparing(next.assign, next.responder)
	}
}

// logPressure logs once for an assignment that the outbox is too small. The caller holds r.mu.
func (r *Supervisor) logPressure(a *assignment, p outbox.Pressure) {
	if a.pressureLogged || p == (outbox.Pressure{}) {
		return
	}
	a.pressureLogged = true
	LoggerOf(a.ref, r.logger).Warn("the coordinator receives measurements too slowly: windows are merged, and request rows are "+
		"dropped if merging is not enough",
		"waiting_bytes", r.outbox.Size(), "limit_bytes", r.outbox.Limit(),
		"dropped_rows", p.Rows)
}

// Measure sets when measuring begins for the current assignment, before its start or after, or moves it. It answers
// with what the agent does. It ignores an assignment that is not current: the totals say when measuring began.
func (r *Supervisor) Measure(m *spatev1.Measure, to Responder) {
	r.mu.Lock()
	a, at := r.current, new(m.GetFromNs())
	if a == nil || !sameStage(a.ref, m.GetRef()) {
		r.mu.Unlock()
		return
	}
	load := a.load
	if load == nil {
		a.from = new(time.Duration(*at))
	}
	r.mu.Unlock()
	if load != nil {
		at = load.Measure(time.Duration(*at), m.AnswerByNs) // without r.mu, because the load may be emitting
	}
	to.Measuring(&spatev1.Measuring{Ref: m.GetRef(), AskedNs: m.GetFromNs(), FromNs: at})
}

// ClockStoodStill ends a load that was armed before this machine's clock stood still: the load would continue in
// windows that are over for all others.
func (r *Supervisor) ClockStoodStill(leap time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil || r.current.load == nil || r.current.ending {
		return
	}
	LoggerOf(r.current.ref, r.logger).Warn("this machine's clock stood still: draining", "for", leap)
	r.finish(func(l *executor.Load) {
		l.Fail(spatev1.FailureKind_FAILURE_KIND_AGENT, false,
			fmt.Sprintf("this machine's clock stood still for %v, as after a suspend: later measurements would "+
				"belong to other seconds", leap.Round(time.Millisecond)))
	})
}

// Stop ends an assignment because the coordinator said so, or drops one that waits.
func (r *Supervisor) Stop(m *spatev1.Stop) {
	if m.GetLeave() {
		r.leave(m.GetRef())
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next != nil && sameStage(r.next.assign.GetRef(), m.GetRef()) {
		r.next = nil
	}
	r.end(m.GetRef(), func(l *executor.Load) { l.Stop(m.GetImmediately(), m.GetEnough()) })
}

// leave makes the load of an assignment leave its stage. It does not hold r.mu meanwhile, because the load keeps
// emitting.
func (r *Supervisor) leave(ref *spatev1.AssignmentRef) {
	r.mu.Lock()
	var load *executor.Load
	if r.current != nil && sameStage(r.current.ref, ref) {
		load = r.current.load
	}
	r.mu.Unlock()
	if load != nil { // the coordinator arms a load before it lets the agent leave
		load.Leave()
	}
}

// Refused ends the assignment of a snapshot that the coordinator refused: its result cannot become complete.
func (r *Supervisor) Refused(s *spatev1.Snapshot, reason string) {
	ref := &spatev1.AssignmentRef{RunId: s.GetKey().GetRunId(), StageIndex: s.GetStageIndex(),
		Revision: s.GetRevision()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logRefused(ref, s, reason)
	r.end(ref, func(l *executor.Load) {
		l.Fail(spatev1.FailureKind_FAILURE_KIND_AGENT, true,
			fmt.Sprintf("the coordinator refused the snapshot of window %d: %s", s.GetWindow(), reason))
	})
}

// logRefused logs once for an assignment that a snapshot was refused, because all later ones will be, too. The caller
// holds r.mu.
func (r *Supervisor) logRefused(ref *spatev1.AssignmentRef, s *spatev1.Snapshot, reason string) {
	for _, a := range []*assignment{r.current, r.finished} {
		if a == nil || !sameStage(a.ref, ref) {
			continue
		}
		if a.refusalLogged {
			return
		}
		a.refusalLogged = true
	}
	LoggerOf(ref, r.logger).Error("snapshot refused: the stage cannot be complete", "window", s.GetWindow(),
		"sequence", s.GetKey().GetSequence(), "reason", reason)
}

// Close ends the current assignment, and accepts nothing more.
func (r *Supervisor) Close(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.alarm != nil {
		r.alarm.Stop()
	}
	if next := r.next; next != nil {
		r.next = nil
		next.responder.Rejected(next.assign.GetRef(), spatev1.FailureKind_FAILURE_KIND_AGENT, reason)
	}
	r.finish(func(l *executor.Load) { l.Fail(spatev1.FailureKind_FAILURE_KIND_AGENT, true, reason) })
}

// end ends the assignment if it is the current one. The caller holds r.mu.
func (r *Supervisor) end(ref *spatev1.AssignmentRef, stop func(*executor.Load)) {
	if r.current != nil && sameStage(r.current.ref, ref) {
		r.finish(stop)
	}
}

// finish stops the load, or drops an assignment that has no load. The caller holds r.mu.
func (r *Supervisor) finish(stop func(*executor.Load)) {
	if r.current != nil && r.current.load != nil {
		r.current.ending = true
		stop(r.current.load)
		return
	}
	r.drop()
}

// Revise changes the stripe of the current assignment, and answers as to an assignment. A revision that is not newer is
// answered again and changes nothing. It must be called by one goroutine at a time.
func (r *Supervisor) Revise(m *spatev1.Revise, to Responder) {
	a, applied, err := r.reviseUnarmed(m, to)
	if err == nil && a != nil {
		err = r.reviseLoad(a, m)
	}
	switch {
	case err != nil:
		to.Rejected(m.GetRef(), spatev1.FailureKind_FAILURE_KIND_AGENT, err.Error())
	case applied != nil:
		to.Applied(applied)
	}
}

// reviseUnarmed handles everything that needs no load under way. If there is such a load, it returns the load's
// assignment. applied is nil if the answer follows when the preparation ends.
func (r *Supervisor) reviseUnarmed(
	m *spatev1.Revise, to Responder,
) (underWay *assignment, applied *spatev1.Applied, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ref := r.current, m.GetRef()
	switch {
	case a == nil && r.finished != nil && sameStage(r.finished.ref, ref):
		return nil, nil, fmt.Errorf("this agent's load of %s has ended", Describe(ref))
	case a == nil || !sameStage(a.ref, ref):
		return nil, nil, fmt.Errorf("%s was revised, but is not assigned", Describe(ref))
	}
	a.responder = to
	if a.ready != nil {
		applied = a.ready.Applied(ref)
	}
	if !isNewer(ref, a.ref) {
		return nil, applied, nil
	}
	if err := r.resources.Limits.CheckRate(a.rate, m.GetStripe()); err != nil {
		return nil, nil, err
	}
	if a.load != nil {
		return a, applied, nil
	}
	return nil, applied, r.reschedule(a, m)
}

// reschedule changes a stage that has not started. If the new schedule cannot be made, the assignment is dropped. The
// caller holds r.mu.
func (r *Supervisor) reschedule(a *assignment, m *spatev1.Revise) error {
	if a.ready != nil {
		if err := a.ready.Schedule(m.GetStripe(), r.resources.Limits); err != nil {
			r.drop()
			return err
		}
	}
	a.ref, a.stripe = m.GetRef(), m.GetStripe()
	return nil
}

// reviseLoad changes the stripe of a load under way. It does not hold r.mu meanwhile, because the load keeps emitting.
func (r *Supervisor) reviseLoad(a *assignment, m *spatev1.Revise) error {
	if err := a.load.Revise(m.GetStripe()); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a.ref = m.GetRef()
	return nil
}
