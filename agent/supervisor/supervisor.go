// Package supervisor holds the one assignment that an agent works on, whatever becomes of the connection: it prepares
// the stage, arms its load, and ends the load with the coordinator's lease.
//
// Locks are taken in this order, and no lock of a later line is held when one of an earlier line is taken:
//
//	executor.Load.revising    held while a stripe is revised, and while an open loop starts a request
//	supervisor.Supervisor.mu  not held while a load is revised, because the load keeps emitting
//	executor.Load.mu, the locks of the schedule, the recorder's gauge, the outbox
//
// A load calls Emit and Expire, which take the supervisor's lock, without holding a lock of its own.
package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/agent/executor"
	"github.com/spate-load/spate/agent/outbox"
	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Supervisor holds the one assignment the agent works on:
//
//	assign -> preparing -> ready -> arm -> under way -> over
//	              |          |
//	           rejected   replaced by another, stopped, or dropped
//
// A supervisor outlives sessions: a load under way continues without the coordinator for its lease. The coordinator may
// repeat a message after a broken connection or its own restart; it answers each repetition and acts once. A
// Supervisor is safe for concurrent use.
type Supervisor struct {
	resources    *ready.Resources
	outbox       *outbox.Outbox
	logger       *slog.Logger
	newWatch     func() executor.Watch // nil: requests are not watched
	heartbeatNow chan struct{}         // requests a heartbeat before its time

	mu       sync.Mutex
	current  *assignment    // nil: none
	finished *assignment    // the last assignment that emitted its totals; nil: none
	next     *pendingAssign // waits for the current assignment to end; nil: none
	secrets  secrets
	lease    lease
	alarm    *time.Timer // fires at the end of the lease; nil: not set yet
	closed   bool
	work     sync.WaitGroup // preparations and loads
}

// New returns a supervisor without an assignment. It logs to the logger of the resources. newWatch is for
// executor.Config.
func New(resources *ready.Resources, o *outbox.Outbox, newWatch func() executor.Watch) *Supervisor {
	r := &Supervisor{resources: resources, outbox: o, logger: resources.Logger, newWatch: newWatch,
		heartbeatNow: make(chan struct{}, 1)}
	resources.Waiting = r.waiting
	return r
}

// waiting tells the coordinator what the server of an assignment that is being prepared answers.
func (r *Supervisor) waiting(ref *spatev1.AssignmentRef, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.current; a != nil && sameStage(a.ref, ref) {
		LoggerOf(ref, r.logger).Info("waiting for the server", "answer", text)
		a.responder.Waiting(a.ref, text)
	}
}

// HeartbeatRequests signals when a heartbeat must be sent before its time.
func (r *Supervisor) HeartbeatRequests() <-chan struct{} { return r.heartbeatNow }

// Wait blocks until all preparations and loads have ended. Call close first.
func (r *Supervisor) Wait() { r.work.Wait() }

// assignment is what the agent works on. The supervisor's lock guards its fields.
type assignment struct {
	ref            *spatev1.AssignmentRef // its latest revision
	responder      Responder
	cancel         context.CancelFunc  // cancels the preparation
	ready          *ready.Stage        // nil: still preparing
	stripe         *spatev1.Stripe     // latest stripe, if it was revised during preparation
	found          chan *spatev1.Found // what another agent found out about the target, if the preparation waits for it
	load           *executor.Load      // nil: not armed
	from           *time.Duration      // when measuring begins, if the coordinator said so before there was a load
	rate           float64             // requests per second of all agents, if the stage gives a rate; else 0
	helloSent      clock.Instant       // when the Hello of the session that brought the assignment was sent
	lease          time.Duration       // 0: the session's
	ending         bool                // the load was told to end
	pressureLogged bool                // it was logged that the outbox is too small
	refusalLogged  bool                // it was logged that a snapshot was refused
}

// pendingAssign is an assignment that has not been started, and the session that asked for it.
type pendingAssign struct {
	assign    *spatev1.Assign
	responder Responder
}

// Responder tells the coordinator about an assignment, over the session that last asked for it. Its methods do not
// block and return no errors: a session that has ended takes no answers, and the coordinator asks again over the next.
type Responder interface {
	Applied(m *spatev1.Applied)
	Rejected(ref *spatev1.AssignmentRef, kind spatev1.FailureKind, reason string)
	Waiting(ref *spatev1.AssignmentRef, text string)
	Measuring(m *spatev1.Measuring)
}

// sameStage reports whether two revisions belong to the same assignment.
func sameStage(a, b *spatev1.AssignmentRef) bool {
	return a.GetRunId() == b.GetRunId() && a.GetStageIndex() == b.GetStageIndex()
}

// isNewer reports whether a is a later revision of b's assignment.
func isNewer(a, b *spatev1.AssignmentRef) bool {
	return sameStage(a, b) && a.GetRevision() > b.GetRevision()
}

// Describe names an assignment for people.
func Describe(ref *spatev1.AssignmentRef) string {
	return fmt.Sprintf("stage %d of run %s", ref.GetStageIndex()+1, ref.GetRunId())
}

// LoggerOf returns a logger whose messages name an assignment: its run, and its stage by the index in results.json.
func LoggerOf(ref *spatev1.AssignmentRef, l *slog.Logger) *slog.Logger {
	return l.With("run", ref.GetRunId(), "stage_index", ref.GetStageIndex())
}

// Assign accepts an assignment, and keeps m. A current assignment that is not armed is dropped. If the load under way
// was told to end, the new assignment waits until it has; else the new one is rejected. An assignment that the agent
// already has is answered again, or revised if the revision is newer. assign does not block.
func (r *Supervisor) Assign(m *spatev1.Assign, to Responder) {
	r.mu.Lock()
	a, ref := r.current, m.GetRef()
	underWay := a != nil && a.load != nil
	if underWay && isNewer(ref, a.ref) {
		r.mu.Unlock()
		r.Revise(&spatev1.Revise{Ref: ref, Stripe: m.GetStripe()}, to)
		return
	}
	defer r.mu.Unlock()
	switch {
	case r.closed:
		to.Rejected(ref, spatev1.FailureKind_FAILURE_KIND_AGENT, "the agent is shutting down")
	case a != nil && sameStage(a.ref, ref) && !isNewer(ref, a.ref):
		a.take(m.GetFound())
		if a.responder = to; a.ready != nil {
			to.Applied(a.ready.Applied(ref))
		}
	case r.finished != nil && sameStage(r.finished.ref, ref):
		to.Applied(r.finished.ready.Applied(ref))
	case underWay && a.ending:
		r.next = &pendingAssign{m, to}
	case underWay:
		to.Rejected(ref, spatev1.FailureKind_FAILURE_KIND_AGENT, "the agent is busy with "+Describe(a.ref))
	default:
		r.drop()
		r.startPreparing(m, to)
	}
}

// Share gives an assignment what another agent found out about its target: the current one, or one that waits for its
// end.
func (r *Supervisor) Share(m *spatev1.Share) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch a, next := r.current, r.next; {
	case next != nil && sameStage(next.assign.GetRef(), m.GetRef()):
		next.assign.Found = m.GetFound()
	case a != nil && sameStage(a.ref, m.GetRef()):
		a.take(m.GetFound())
	}
}

// take gives the preparation what another agent found, unless it has that already.
func (a *assignment) take(found *spatev1.Found) {
	if found == nil {
		return
	}
	select {
	case a.found <- found:
	default:
	}
}

// startPreparing starts to prepare an assignment. The caller holds r.mu.
func (r *Supervisor) startPreparing(m *spatev1.Assign, to Responder) {
	ctx, cancel := context.WithCancel(context.Background())
	a := &assignment{
		ref: m.GetRef(), responder: to, cancel: cancel, rate: m.GetStage().GetLoad().GetRate(),
		found: make(chan *spatev1.Found, 1), helloSent: r.lease.helloSent, lease: max(0, m.GetLease().AsDuration()),
	}
	m.Secrets = r.secrets.with(m.GetRef().GetRunId(), m.GetSecrets())
	r.current = a
	r.watchLease()
	r.work.Go(func() {
		defer cancel()
		if err := r.resources.Limits.CheckRate(a.rate, m.GetStripe()); err != nil {
			r.prepared(a, nil, err)
			return
		}
		s, err := ready.Prepare(ctx, m, a.found, r.resources)
		r.prepared(a, s, err)
	})
}

// prepared stores and answers the result of a preparation. If the assignment was dropped meanwhile, it only closes the
// stage.
func (r *Supervisor) prepared(a *assignment, s *ready.Stage, err error) {
	r.mu.Lock()
	isCurrent, to, ref := r.current == a, a.responder, a.ref
	if isCurrent && err == nil && a.stripe != nil {
		err = s.Schedule(a.stripe, r.resources.Limits)
	}
	if isCurrent && err != nil {
		r.current = nil
	} else if isCurrent {
		a.ready = s
	}
	r.mu.Unlock()
	if s != nil && (!isCurrent || err != nil) {
		s.Close()
	}
	switch {
	case isCurrent && err != nil:
		to.Rejected(ref, ready.FailureKindOf(err), err.Error())
	case isCurrent:
		to.Applied(s.Applied(ref))
	}
}

// drop discards the current assignment unless it is under way. The caller holds r.mu.
func (r *Supervisor) drop() {
	a := r.current
	if a == nil || a.load != nil {
		return
	}
	a.cancel()
	if a.ready != nil {
		a.ready.Close()
	}
	r.current = nil
}

// Ref returns the current assignment, or nil.
func (r *Supervisor) Ref() *spatev1.AssignmentRef {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil {
		return nil
	}
	return r.current.ref
}

// ResumeState returns what the coordinator must know after a broken connection: the current assignment and whether it
// is armed, or the previous one while the coordinator does not have all of its snapshots.
func (r *Supervisor) ResumeState() (ref *spatev1.AssignmentRef, armed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.current != nil:
		return proto.CloneOf(r.current.ref), r.current.load != nil
	case r.finished != nil && r.outbox.Holds(r.finished.ref):
		return proto.CloneOf(r.finished.ref), true
	default:
		return nil, false
	}
}

// InFlight returns the number of requests in flight.
func (r *Supervisor) InFlight() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil || r.current.load == nil {
		return 0
	}
	return r.current.load.InFlight()
}

// EndedRef returns the assignment whose load has ended and waits for the other agents, or nil.
func (r *Supervisor) EndedRef() *spatev1.AssignmentRef {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.current; a != nil && a.load != nil && a.load.AwaitsOthers() {
		return proto.CloneOf(a.ref)
	}
	return nil
}

// AllEnded is called when the load of all agents has ended.
func (r *Supervisor) AllEnded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != nil && r.current.load != nil {
		r.current.load.EndWait()
	}
}

// RequestHeartbeat requests a heartbeat now. It does not block.
func (r *Supervisor) RequestHeartbeat() {
	select {
	case r.heartbeatNow <- struct{}{}:
	default: // already requested, or there is no session
	}
}
