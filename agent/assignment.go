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
// It outlives sessions: an assignment under way goes on without the coordinator, for its lease. Whatever the
// coordinator says twice, since a connection broke or it was started anew, is answered twice and done once. It is safe
// for concurrent use.
type desk struct {
	kit    kit
	outbox *outbox
	logger *slog.Logger
	beat   chan struct{} // asks for a heartbeat before its time

	mu      sync.Mutex
	current *assignment // nil: there is none
	over    *assignment // the last one that came to its totals; nil: none did
	next    *request    // waits for the current one to end; nil: none does
	secrets secrets
	lease   lease
	alarm   *time.Timer // looks whether the lease has ended; nil: there was none yet
	closed  bool
	work    sync.WaitGroup // of preparing and of loads
}

// assignment is what the agent works on. The desk's lock guards it.
type assignment struct {
	ref     *spatev1.AssignmentRef // its latest revision
	answer  answer
	cancel  context.CancelFunc // of preparing
	share   *share             // nil: preparing
	stripe  *spatev1.Stripe    // the share's, if it was revised while it was prepared
	load    *load              // nil: not armed
	from    *time.Duration     // when measuring begins, if it was said before there was a load
	rate    float64            // requests per second of all agents, if the stage says so; else 0
	given   clock.Instant      // sending of the Hello of the session that it was assigned in
	lease   time.Duration      // 0: the session's
	ending  bool               // the load was told to end
	pressed bool               // it was said that the outbox is too small
	refused bool               // it was said that a snapshot was refused
}

// request is an assignment that was not begun, and who asked for it.
type request struct {
	assign *spatev1.Assign
	by     answer
}

// answer is how the coordinator is told about an assignment, over the session that last asked for it. Its methods do
// not fail: a session that is gone takes no answers, and the next one asks again.
type answer interface {
	applied(ref *spatev1.AssignmentRef, found *spatev1.Preparation)
	rejected(ref *spatev1.AssignmentRef, kind spatev1.FailureKind, reason string)
}

// sameStage says whether two revisions are of one assignment.
func sameStage(a, b *spatev1.AssignmentRef) bool {
	return a.GetRunId() == b.GetRunId() && a.GetStageIndex() == b.GetStageIndex()
}

// newer says whether a is a later revision of b's assignment.
func newer(a, b *spatev1.AssignmentRef) bool {
	return sameStage(a, b) && a.GetRevision() > b.GetRevision()
}

// describe names an assignment for people.
func describe(ref *spatev1.AssignmentRef) string {
	return fmt.Sprintf("stage %d of run %s", ref.GetStageIndex()+1, ref.GetRunId())
}

// assign takes on an assignment, which is the desk's to keep. An earlier one that was not armed yet makes way; one that
// was told to end is waited for. The one under way is answered again, or revised if the revision is newer. It does not
// block.
func (d *desk) assign(m *spatev1.Assign, by answer) {
	d.mu.Lock()
	a, ref := d.current, m.GetRef()
	underWay := a != nil && a.load != nil
	if underWay && newer(ref, a.ref) {
		d.mu.Unlock()
		d.revise(&spatev1.Revise{Ref: ref, Stripe: m.GetStripe()}, by)
		return
	}
	defer d.mu.Unlock()
	switch {
	case d.closed:
		go by.rejected(ref, spatev1.FailureKind_FAILURE_KIND_AGENT, "the agent is shutting down")
	case a != nil && sameStage(a.ref, ref) && !newer(ref, a.ref):
		d.answerAgain(a, ref, by)
	case d.over != nil && sameStage(d.over.ref, ref):
		go by.applied(ref, d.over.share.found.Preparation)
	case underWay && a.ending:
		d.next = &request{m, by}
	case underWay:
		go by.rejected(ref, spatev1.FailureKind_FAILURE_KIND_AGENT, "the agent is busy with "+describe(a.ref))
	default:
		d.drop()
		d.take(m, by)
	}
}

// answerAgain answers an assignment that the coordinator has asked for before, as soon as it is ready. The desk is
// locked.
func (d *desk) answerAgain(a *assignment, ref *spatev1.AssignmentRef, by answer) {
	a.answer = by
	if a.share != nil {
		go by.applied(ref, a.share.found.Preparation)
	}
}

// take begins to prepare an assignment. The desk is locked.
func (d *desk) take(m *spatev1.Assign, by answer) {
	ctx, cancel := context.WithCancel(context.Background())
	a := &assignment{
		ref: m.GetRef(), answer: by, cancel: cancel, rate: m.GetStage().GetLoad().GetRate(),
		given: d.lease.greeted, lease: max(0, m.GetLease().AsDuration()),
	}
	m.Secrets = d.secrets.with(m.GetRef().GetRunId(), m.GetSecrets())
	d.current = a
	d.watchLease()
	d.work.Go(func() {
		defer cancel()
		if err := d.kit.limits.checkRate(a.rate, m.GetStripe()); err != nil {
			d.prepared(a, nil, err)
			return
		}
		s, err := prepare(ctx, m, d.kit)
		d.prepared(a, s, err)
	})
}

// prepared ends preparing, unless the assignment has been dropped meanwhile.
func (d *desk) prepared(a *assignment, s *share, err error) {
	d.mu.Lock()
	isCurrent, by, ref := d.current == a, a.answer, a.ref
	if isCurrent && err == nil && a.stripe != nil {
		err = s.schedule(a.stripe, d.kit.limits)
	}
	if isCurrent && err != nil {
		d.current = nil
	} else if isCurrent {
		a.share = s
	}
	d.mu.Unlock()
	if s != nil && (!isCurrent || err != nil) {
		s.close()
	}
	switch {
	case isCurrent && err != nil:
		by.rejected(ref, kindOf(err), err.Error())
	case isCurrent:
		by.applied(ref, s.found.Preparation)
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

// ref names the current assignment, nil if there is none.
func (d *desk) ref() *spatev1.AssignmentRef {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil {
		return nil
	}
	return d.current.ref
}

// resume names what the coordinator is to know of after a broken connection: the current assignment and whether it is
// armed, or the one before as long as its totals have not arrived.
func (d *desk) resume() (ref *spatev1.AssignmentRef, armed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.current != nil:
		return proto.CloneOf(d.current.ref), d.current.load != nil
	case d.over != nil && d.outbox.holds(d.over.ref):
		return proto.CloneOf(d.over.ref), true
	default:
		return nil, false
	}
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
