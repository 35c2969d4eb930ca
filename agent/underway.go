package agent

import (
	"fmt"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// longestAway bounds how far from now a start may be: no stage is planned that far ahead or lasts that long.
const longestAway = 10 * 365 * 24 * time.Hour

// arm sets the start of the assignment, on this machine's clock, and begins to wait for it. Arming twice changes
// nothing. The error says what the coordinator has wrong about this agent.
func (d *desk) arm(ref *spatev1.AssignmentRef, start clock.Instant, uncertainty time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.current
	switch {
	case d.closed || a == nil && d.over != nil && sameStage(d.over.ref, ref):
		return nil
	case a == nil || !sameStage(a.ref, ref):
		return fmt.Errorf("%s was armed, but is not assigned", describe(ref))
	case a.share == nil:
		return fmt.Errorf("%s was armed before it was ready", describe(ref))
	case a.load != nil:
		return nil
	case clock.Until(start) > longestAway || clock.Until(start) < -longestAway:
		return fmt.Errorf("%s was armed for a start %v from now", describe(ref), clock.Until(start))
	}
	a.load = newLoad(a.share, start, uncertainty, func(s *spatev1.Snapshot) { d.emit(a, s) })
	a.load.lapsed, a.load.account.hurry = d.checkLease, d.hurry
	d.watchLease()
	if a.rate == 0 { // the schedule does not tell the rate
		a.load.pace.most = d.kit.limits.maxRate
	}
	if a.from != nil {
		a.load.measure(*a.from)
	}
	d.work.Go(func() {
		defer a.share.close()
		a.load.run()
	})
	return nil
}

// emit puts a snapshot of an assignment into the outbox. The assignment is over with its totals, and the next one may
// start.
func (d *desk) emit(a *assignment, s *spatev1.Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tell(a, d.outbox.add(a.ref, s))
	if s.GetTotals() == nil {
		return
	}
	d.current, d.over = nil, a
	if r := d.next; r != nil {
		d.next = nil
		d.take(r.assign, r.by)
	}
}

// tell logs once for an assignment that the outbox is too small. The caller holds d.mu.
func (d *desk) tell(a *assignment, p pressure) {
	if a.pressed || p == (pressure{}) {
		return
	}
	a.pressed = true
	d.logger.Warn("the coordinator receives measurements too slowly: windows are merged, and request rows are "+
		"dropped if merging is not enough",
		"assignment", describe(a.ref), "waiting_bytes", d.outbox.size(), "limit_bytes", d.outbox.limit,
		"dropped_rows", p.rows)
}

// measure sets when measuring begins for the current assignment, before its start or after. It may be called again, to
// no effect. It ignores an assignment that is not current.
func (d *desk) measure(m *spatev1.Measure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, from := d.current, time.Duration(m.GetFromNs())
	switch {
	case a == nil || !sameStage(a.ref, m.GetRef()):
	case a.load != nil:
		a.load.measure(from)
	case a.from == nil:
		a.from = &from
	}
}

// stoodStill ends a load that was armed before this machine's clock stood still: the load would continue in windows
// that are over for all others.
func (d *desk) stoodStill(leap time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil || d.current.load == nil || d.current.ending {
		return
	}
	d.logger.Warn("this machine's clock stood still: draining", "for", leap, "assignment", describe(d.current.ref))
	d.finish(func(l *load) {
		l.fail(spatev1.FailureKind_FAILURE_KIND_AGENT, false,
			fmt.Sprintf("this machine's clock stood still for %v, as after a suspend: later measurements would "+
				"belong to other seconds", leap.Round(time.Millisecond)))
	})
}

// stop ends an assignment because the coordinator said so, or drops one that waits.
func (d *desk) stop(m *spatev1.Stop) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next != nil && sameStage(d.next.assign.GetRef(), m.GetRef()) {
		d.next = nil
	}
	d.end(m.GetRef(), func(l *load) { l.stop(m.GetImmediately(), m.GetEnough()) })
}

// refused ends the assignment of a snapshot that the coordinator refused: its result cannot become complete.
func (d *desk) refused(s *spatev1.Snapshot, reason string) {
	ref := &spatev1.AssignmentRef{RunId: s.GetKey().GetRunId(), StageIndex: s.GetStageIndex(),
		Revision: s.GetRevision()}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tellRefused(ref, s, reason)
	d.end(ref, func(l *load) {
		l.fail(spatev1.FailureKind_FAILURE_KIND_AGENT, true,
			fmt.Sprintf("the coordinator refused the snapshot of window %d: %s", s.GetWindow(), reason))
	})
}

// tellRefused logs once for an assignment that a snapshot was refused, because all later ones will be, too. The caller
// holds d.mu.
func (d *desk) tellRefused(ref *spatev1.AssignmentRef, s *spatev1.Snapshot, reason string) {
	for _, a := range []*assignment{d.current, d.over} {
		if a == nil || !sameStage(a.ref, ref) {
			continue
		}
		if a.refused {
			return
		}
		a.refused = true
	}
	d.logger.Error("snapshot refused: the stage cannot be complete", "assignment", describe(ref),
		"window", s.GetWindow(),
		"sequence", s.GetKey().GetSequence(), "reason", reason)
}

// close ends the current assignment, and accepts nothing more.
func (d *desk) close(reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.alarm != nil {
		d.alarm.Stop()
	}
	if r := d.next; r != nil {
		d.next = nil
		go r.by.rejected(r.assign.GetRef(), spatev1.FailureKind_FAILURE_KIND_AGENT, reason)
	}
	d.finish(func(l *load) { l.fail(spatev1.FailureKind_FAILURE_KIND_AGENT, true, reason) })
}

// end ends the assignment if it is the current one. The caller holds d.mu.
func (d *desk) end(ref *spatev1.AssignmentRef, stop func(*load)) {
	if d.current != nil && sameStage(d.current.ref, ref) {
		d.finish(stop)
	}
}

// finish stops the load, or drops an assignment that has no load. The caller holds d.mu.
func (d *desk) finish(stop func(*load)) {
	if d.current != nil && d.current.load != nil {
		d.current.ending = true
		stop(d.current.load)
		return
	}
	d.drop()
}
