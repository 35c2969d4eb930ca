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
//	           rejected   replaced by another, stopped, or dropped
//
// A desk outlives sessions: a load under way continues without the coordinator for its lease. The coordinator may
// repeat a message after a broken connection or its own restart; the desk answers each repetition and acts once. A desk
// is safe for concurrent use.
type desk struct {
	kit    kit
	outbox *outbox
	logger *slog.Logger
	beat   chan struct{} // requests a heartbeat before its time

	mu      sync.Mutex
	current *assignment // nil: none
	over    *assignment // the last assignment that emitted its totals; nil: none
	next    *request    // waits for the current assignment to end; nil: none
	secrets secrets
	lease   lease
	alarm   *time.Timer // fires at the end of the lease; nil: not set yet
	closed  bool
	work    sync.WaitGroup // preparations and loads
}

// assignment is what the agent works on. The desk's lock guards its fields.
type assignment struct {
	ref     *spatev1.AssignmentRef // its latest revision
	answer  answer
	cancel  context.CancelFunc // cancels the preparation
	share   *share             // nil: still preparing
	stripe  *spatev1.Stripe    // latest stripe, if it was revised during preparation
	load    *load              // nil: not armed
	from    *time.Duration     // when measuring begins, if the coordinator said so before there was a load
	rate    float64            // requests per second of all agents, if the stage gives a rate; else 0
	given   clock.Instant      // when the Hello of the session that brought the assignment was sent
	lease   time.Duration      // 0: the session's
	ending  bool               // the load was told to end
	pressed bool               // it was logged that the outbox is too small
	refused bool               // it was logged that a snapshot was refused
}

// request is an assignment that has not been started, and the session that asked for it.
type request struct {
	assign *spatev1.Assign
	by     answer
}

// answer tells the coordinator about an assignment, over the session that last asked for it. Its methods return no
// errors: a closed session takes no answers, and the coordinator asks again over the next one.
type answer interface {
	applied(ref *spatev1.AssignmentRef, found *spatev1.Preparation)
	rejected(ref *spatev1.AssignmentRef, kind spatev1.FailureKind, reason string)
}

// sameStage reports whether two revisions belong to the same assignment.
func sameStage(a, b *spatev1.AssignmentRef) bool {
	return a.GetRunId() == b.GetRunId() && a.GetStageIndex() == b.GetStageIndex()
}

// newer reports whether a is a later revision of b's assignment.
func newer(a, b *spatev1.AssignmentRef) bool {
	return sameStage(a, b) && a.GetRevision() > b.GetRevision()
}

// describe names an assignment for people.
func describe(ref *spatev1.AssignmentRef) string {
	return fmt.Sprintf("stage %d of run %s", ref.GetStageIndex()+1, ref.GetRunId())
}

// assign accepts an assignment, and keeps m. A current assignment that is not armed is dropped. If the load under way
// was told to end, the new assignment waits until it has; else the new one is rejected. An assignment that the agent
// already has is answered again, or revised if the revision is newer. assign does not block.
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

// answerAgain answers a repeated assignment, as soon as it is ready. The caller holds d.mu.
func (d *desk) answerAgain(a *assignment, ref *spatev1.AssignmentRef, by answer) {
	a.answer = by
	if a.share != nil {
		go by.applied(ref, a.share.found.Preparation)
	}
}

// take starts to prepare an assignment. The caller holds d.mu.
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

// prepared stores and answers the result of a preparation. If the assignment was dropped meanwhile, it only closes the
// share.
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

// drop discards the current assignment unless it is under way. The caller holds d.mu.
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

// ref returns the current assignment, or nil.
func (d *desk) ref() *spatev1.AssignmentRef {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil {
		return nil
	}
	return d.current.ref
}

// resume returns what the coordinator must know after a broken connection: the current assignment and whether it is
// armed, or the previous one while the coordinator does not have all of its snapshots.
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

// inFlight returns the number of requests in flight.
func (d *desk) inFlight() uint32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil || d.current.load == nil {
		return 0
	}
	return d.current.load.recorder.InFlight()
}
