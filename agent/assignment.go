package agent

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// desk holds the one assignment the agent works on:
//
//	assign -> preparing -> ready -> arm -> under way -> over
//	              |          |
//	           rejected   replaced by another, stopped, or given up
//
// It outlives sessions: an assignment under way goes on without the coordinator. It is safe for concurrent use.
type desk struct {
	kit    kit
	outbox *outbox
	logger *slog.Logger

	mu      sync.Mutex
	current *assignment
	closed  bool
	work    sync.WaitGroup // of preparing and of loads
}

// assignment is what the agent works on. The desk's lock guards it.
type assignment struct {
	ref    *spatev1.AssignmentRef
	answer answer
	cancel context.CancelFunc // of preparing
	share  *share             // nil: preparing
	load   *load              // nil: not armed
	from   *time.Duration     // when measuring begins, if it was said before there was a load
}

// answer is how the coordinator is told about an assignment, over the session that last asked for it. Its methods do not fail: a
// session that is gone takes no answers, and the next one asks again.
type answer interface {
	applied(ref *spatev1.AssignmentRef, found *spatev1.Preparation)
	rejected(ref *spatev1.AssignmentRef, kind spatev1.FailureKind, reason string)
}

// assign takes on an assignment. An earlier one that was not armed yet makes way. It does not block.
func (d *desk) assign(m *spatev1.Assign, by answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.current
	switch {
	case d.closed:
		go by.rejected(m.GetRef(), spatev1.FailureKind_FAILURE_KIND_AGENT, "the agent is shutting down")
	case a != nil && proto.Equal(a.ref, m.GetRef()):
		a.answer = by
		if a.share != nil {
			go by.applied(a.ref, a.share.found.Preparation)
		}
	case a != nil && a.load != nil:
		go by.rejected(m.GetRef(), spatev1.FailureKind_FAILURE_KIND_AGENT, "the agent is busy with "+describe(a.ref))
	default:
		d.drop()
		d.take(m, by)
	}
}

// take begins to prepare an assignment. The desk is locked.
func (d *desk) take(m *spatev1.Assign, by answer) {
	ctx, cancel := context.WithCancel(context.Background())
	a := &assignment{ref: m.GetRef(), answer: by, cancel: cancel}
	d.current = a
	d.work.Go(func() {
		defer cancel()
		s, err := prepare(ctx, m, d.kit)
		d.prepared(a, s, err)
	})
}

// prepared ends preparing, unless the assignment has been dropped meanwhile.
func (d *desk) prepared(a *assignment, s *share, err error) {
	d.mu.Lock()
	isCurrent, by := d.current == a, a.answer
	if isCurrent && err != nil {
		d.current = nil
	} else if isCurrent {
		a.share = s
	}
	d.mu.Unlock()
	switch {
	case !isCurrent && s != nil:
		s.close()
	case isCurrent && err != nil:
		by.rejected(a.ref, kindOf(err), err.Error())
	case isCurrent:
		by.applied(a.ref, s.found.Preparation)
	}
}

// drop lets go of an assignment that is not under way. The desk is locked.
func (d *desk) drop() {
	a := d.current
	if a == nil || a.load != nil {
		return
	}
	a.cancel()
	if a.share != nil {
		a.share.close()
	}
	d.current = nil
}

// arm sets the start of the assignment, by this machine's clock, and starts waiting for it. Arming twice changes nothing.
func (d *desk) arm(ref *spatev1.AssignmentRef, start clock.Instant, uncertainty time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.current
	switch {
	case a == nil || !proto.Equal(a.ref, ref):
		return fmt.Errorf("%s was armed, but is not assigned", describe(ref))
	case a.share == nil:
		return fmt.Errorf("%s was armed before it was ready", describe(ref))
	case a.load != nil:
		return nil
	}
	a.load = newLoad(a.share, start, uncertainty, func(s *spatev1.Snapshot) { d.emit(a, s) })
	if a.from != nil {
		a.load.measure(*a.from)
	}
	d.work.Go(func() {
		defer a.share.close()
		a.load.run()
	})
	return nil
}

// emit puts a snapshot of an assignment into the outbox. With its totals the assignment is over: the next one may come as soon as
// the coordinator has them.
func (d *desk) emit(a *assignment, s *spatev1.Snapshot) {
	if s.GetTotals() != nil {
		d.mu.Lock()
		d.current = nil
		d.mu.Unlock()
	}
	if !d.outbox.add(a.ref, s) {
		a.load.fail(spatev1.FailureKind_FAILURE_KIND_AGENT, true,
			fmt.Sprintf("the coordinator takes no measurements: more than %d bytes of them wait", d.outbox.limit))
	}
}

// measure says when the current assignment's measuring begins, before its start or after. It may be said again. Of an assignment that is not
// current it means nothing.
func (d *desk) measure(m *spatev1.Measure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, from := d.current, time.Duration(m.GetFromNs())
	switch {
	case a == nil || !proto.Equal(a.ref, m.GetRef()):
	case a.load != nil:
		a.load.measure(from)
	case a.from == nil:
		a.from = &from
	}
}

// stop ends an assignment on the coordinator's word.
func (d *desk) stop(m *spatev1.Stop) {
	d.end(m.GetRef(), func(l *load) { l.stop(m.GetImmediately(), m.GetEnough()) })
}

// refused ends the assignment of a snapshot that the coordinator does not take: its result cannot become complete.
func (d *desk) refused(s *spatev1.Snapshot, reason string) {
	ref := &spatev1.AssignmentRef{RunId: s.GetKey().GetRunId(), StageIndex: s.GetStageIndex(), Revision: s.GetRevision()}
	d.end(ref, func(l *load) {
		l.fail(spatev1.FailureKind_FAILURE_KIND_AGENT, true,
			fmt.Sprintf("the coordinator refused the snapshot of window %d: %s", s.GetWindow(), reason))
	})
}

// expire ends whatever the agent works on, since the coordinator has been gone for too long.
func (d *desk) expire(lease time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil {
		return
	}
	d.logger.Warn("coordinator gone for longer than the lease: draining", "lease", lease, "assignment", describe(d.current.ref))
	d.finish(func(l *load) {
		l.fail(spatev1.FailureKind_FAILURE_KIND_AGENT, false,
			fmt.Sprintf("the coordinator was gone for longer than the lease of %v", lease))
	})
}

// close ends whatever the agent works on and takes on nothing more.
func (d *desk) close(reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.finish(func(l *load) { l.fail(spatev1.FailureKind_FAILURE_KIND_AGENT, true, reason) })
}

// end ends the assignment if it is the current one.
func (d *desk) end(ref *spatev1.AssignmentRef, stop func(*load)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current != nil && proto.Equal(d.current.ref, ref) {
		d.finish(stop)
	}
}

// finish stops the load, or drops an assignment that has none. The desk is locked.
func (d *desk) finish(stop func(*load)) {
	if d.current != nil && d.current.load != nil {
		stop(d.current.load)
		return
	}
	d.drop()
}

// ref names the current assignment, nil if there is none.
func (d *desk) ref() *spatev1.AssignmentRef {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil {
		return nil
	}
	return d.current.ref
}

// inFlight is the number of requests now in flight.
func (d *desk) inFlight() uint32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil || d.current.load == nil {
		return 0
	}
	return d.current.load.recorder.InFlight()
}

// describe names an assignment for people.
func describe(ref *spatev1.AssignmentRef) string {
	return fmt.Sprintf("stage %d of run %s", ref.GetStageIndex(), ref.GetRunId())
}
