package coordinator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/live"
	"github.com/spate-load/spate/coordinator/storage"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A snapshot goes one way: the service that receives it finds its run (push.go), which checks it, adds it to the ledger
// and to the merge, and tells the machine. The answer is its acknowledgement.

// intake counts snapshots.
type intake struct {
	written, duplicates, refused, dropped atomic.Uint64
}

// acknowledge counts a snapshot that is in the ledger, and returns the answer. fresh: it is new there.
func (i *intake) acknowledge(s *spatev1.Snapshot, fresh bool) *spatev1.PushResponse {
	if fresh {
		i.written.Add(1)
	} else {
		i.duplicates.Add(1)
	}
	return &spatev1.PushResponse{Key: s.GetKey()}
}

// errDropped refuses a snapshot that comes too late: other agents have been told to take the work over, or the result
// was computed without the snapshot.
var errDropped = errors.New("the agent was lost, and its part of the stage was dropped or taken over")

// errRunFaulted ends the stream of an agent whose run has ended by a panic.
var errRunFaulted = status.Error(codes.Internal, "the run has ended by an internal fault of the coordinator")

// holds reports whether a snapshot is in the ledger of a run that has ended. If so, its acknowledgement was lost:
// perhaps with an earlier process of the coordinator, so that the run is not in memory.
func (g *ground) holds(s *spatev1.Snapshot) bool {
	id := s.GetKey().GetRunId()
	if !storage.Valid(id) {
		return false
	}
	found, err := ledger.Holds(g.storage.Ledger(id), id, s.GetStageIndex(), s.GetKey())
	return err == nil && found // a waiting run's ledger is locked, and holds no snapshots
}

// refuse counts and logs a refused snapshot and returns the answer.
func (g *ground) refuse(s *spatev1.Snapshot, reason error) *spatev1.PushResponse {
	g.intake.refused.Add(1)
	g.log.Warn("snapshot refused", "agent", s.GetKey().GetAgent(), "sequence", s.GetKey().GetSequence(),
		"reason", reason)
	return &spatev1.PushResponse{Key: s.GetKey(), Refused: reason.Error()}
}

// receive adds a snapshot to the ledger and the merge, and returns the answer. heard reports whether its agent was
// heard recently. An error ends the stream: the agent keeps the snapshot and sends it again.
func (r *run) receive(s *spatev1.Snapshot, heard bool) (answer *spatev1.PushResponse, err error) {
	err = errRunFaulted
	r.guarded(func() { answer, err = r.add(s, heard) })
	return answer, err
}

// add is receive without protection against panics.
func (r *run) add(s *spatev1.Snapshot, heard bool) (*spatev1.PushResponse, error) {
	m, ok := r.stages.Get(s.GetStageIndex())
	if !ok {
		return r.refuseFor(s, heard, fmt.Errorf("stage %d has not been assigned", s.GetStageIndex()+1)), nil
	}
	checked, err := merge.Check(s, r.record, m.Record)
	if err != nil && lossOf(m.Record, s.GetKey()) == nil { // keepAndTell judges a lost agent's
		return r.refuseFor(s, heard, err), nil
	}
	fresh, err := r.keepAndTell(m, s, checked)
	switch {
	case errors.Is(err, errDropped):
		r.intake.dropped.Add(1)
		r.log.Info("snapshot of a lost agent refused", "agent", s.GetKey().GetAgent(),
			"sequence", s.GetKey().GetSequence())
		return &spatev1.PushResponse{Key: s.GetKey(), Refused: err.Error()}, nil
	case errors.Is(err, ledger.ErrClosed):
		return r.answerLate(s, heard, err)
	case errors.Is(err, ledger.ErrConflict):
		return r.refuseFor(s, heard, err), nil
	case err != nil:
		r.log.Error("ledger cannot be written", "run", r.id, "error", err)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.abort(fmt.Sprintf("the ledger cannot be written: %v", err)) // a run must not measure what it cannot keep
		return nil, errUnwritten
	}
	return r.intake.acknowledge(s, fresh), nil
}

// answerLate answers a snapshot that came when its run's ledger had been closed. It blocks until the run has ended:
// until then its ledger may still be locked.
func (r *run) answerLate(s *spatev1.Snapshot, heard bool, reason error) (*spatev1.PushResponse, error) {
	<-r.ended
	if r.holds(s) { // sent again while the run ended
		return r.intake.acknowledge(s, false), nil
	}
	if r.leaves() { // the agent sends it again to the next coordinator
		return nil, errClosing
	}
	return r.refuseFor(s, heard, reason), nil
}

// keepAndTell adds a snapshot to the ledger, and tells the machine if it is new there. The machine may drop the
// agent's part while the snapshot is being written. The snapshot is then kept but does not count: the record says from
// which window on nothing counts (merge.InResult).
func (r *run) keepAndTell(m live.Stage, s *spatev1.Snapshot, checked merge.Checked) (fresh bool, err error) {
	defer r.claims.Claim(s.GetKey())()
	if lossOf(m.Record, s.GetKey()) != nil {
		kept, err := r.ledger.Has(s.GetStageIndex(), s.GetKey())
		if err == nil && !kept {
			err = errDropped
		}
		return false, err
	}
	if fresh, err = r.keep(s, checked); !fresh || err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.feed(func(m *lifecycle.Run, at clock.Instant) { m.Merged(at, s) })
	return true, nil
}

// lossOf returns what was lost with the process that sent a snapshot, nil if the process was not lost.
func lossOf(rec *spatev1.StageRecord, k *spatev1.SnapshotKey) *spatev1.Loss {
	return merge.Assigned(rec, k).GetLoss()
}

// keep adds a snapshot to the ledger and, if it is new there, to the merge. A snapshot that comes after its stage has
// ended is only in the ledger, where the report finds it.
func (r *run) keep(s *spatev1.Snapshot, checked merge.Checked) (fresh bool, err error) {
	if fresh, err := r.disk.Append(s); err != nil || !fresh {
		return false, err
	}
	if err := r.stages.Merge(s, checked); err != nil {
		r.log.Error("snapshot passed the check and cannot be merged", "error", err)
	}
	return true, nil
}

// refuseFor refuses a snapshot. It blocks until the consequences for the run are durable, because the agent then
// discards the snapshot.
func (r *run) refuseFor(s *spatev1.Snapshot, heard bool, reason error) *spatev1.PushResponse {
	answer := r.refuse(s, reason)
	<-r.refused(s, heard, reason)
	return answer
}

// refused ends the assignment of the snapshot's agent if heard is true: the agent is connected and sent the snapshot
// itself. It returns a channel that is closed when this is durable.
func (r *run) refused(s *spatev1.Snapshot, heard bool, reason error) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if heard {
		r.feed(func(m *lifecycle.Run, at clock.Instant) { m.Refused(at, s, reason.Error()) })
	}
	return r.written()
}

// errUnwritten ends the streams of agents whose snapshots cannot be kept. They send them again.
var errUnwritten = status.Error(codes.Unavailable, "the coordinator cannot write its ledger")

// metricsService receives what agents measured.
type metricsService struct {
	spatev1.UnimplementedMetricsServiceServer
	c *Coordinator
}

// ackedTogether is how many snapshots one answer acks, if the agent says each time that more follow. Acks of 1,000
// agents, one by one, are a tenth of what they cost. Each stream starts its count at random, so that not all agents are
// answered in the same second.
const ackedTogether = 4

// Push receives snapshots until the agent closes the stream. Each snapshot is durable before it is acknowledged.
// Snapshots from different agents share the ledger's writes.
func (s metricsService) Push(stream spatev1.MetricsService_PushServer) error {
	who, _ := certs.PeerOf(stream.Context())
	unacked := rand.IntN(ackedTogether)
	recv := func() (*spatev1.PushRequest, error) {
		m, err := stream.Recv()
		s.c.noteUnreadable(err, access.AddressOf(stream.Context()))
		return m, err
	}
	ended, quit := read(&s.c.ground, recv, func(m *spatev1.PushRequest) error {
		if err := s.c.awaitRebuilt(stream.Context(), m.GetSnapshot().GetKey().GetRunId()); err != nil {
			return err
		}
		answer, err := s.c.receiveSnapshot(m.GetSnapshot(), who)
		if err != nil {
			return err
		}
		if unacked++; m.GetMore() && answer.GetRefused() == "" && unacked < ackedTogether {
			return nil
		}
		unacked = 0
		return stream.Send(answer)
	})
	defer quit()
	select {
	case err := <-ended:
		return err
	case <-s.c.closing:
		return errClosing
	}
}

// noteUnreadable counts a message that cannot be decoded or is too large, by the error of its stream, as a refused
// snapshot.
func (g *ground) noteUnreadable(err error, address string) {
	var limit access.LimitError // was counted already
	if code := status.Code(err); (code == codes.ResourceExhausted || code == codes.Internal) &&
		!errors.As(err, &limit) {
		g.intake.refused.Add(1)
		g.log.Warn("unreadable snapshot refused", "address", address, "error", err)
	}
}

// receiveSnapshot gives a snapshot to its run, and returns the answer. who is the authenticated peer. An error ends the
// stream: the agent keeps the snapshot and sends it again.
func (c *Coordinator) receiveSnapshot(s *spatev1.Snapshot, who certs.Identity) (*spatev1.PushResponse, error) {
	r, heard, err := c.senderOf(s.GetKey(), who)
	switch {
	case err != nil:
		return nil, err
	case r != nil:
		return r.receive(s, heard)
	case c.holds(s):
		return c.intake.acknowledge(s, false), nil
	}
	return c.refuse(s, fmt.Errorf("run %.80q is not in progress here", s.GetKey().GetRunId())), nil
}

// senderOf returns the run to which a snapshot belongs, nil if it is not in progress, and whether its agent was
// heard recently. It fails if the agent is connected with another certificate than the one the snapshot came with.
func (c *Coordinator) senderOf(k *spatev1.SnapshotKey, who certs.Identity) (r *run, heard bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.fleet.Session(k.GetAgent())
	if from != nil && from.Who != who {
		c.admission.CallsRefused.Add(1)
		return nil, false, status.Errorf(codes.PermissionDenied,
			"agent %s is connected with the certificate of %s: %s cannot push in its name",
			k.GetAgent(), from.Who, who)
	}
	if err := c.checkOwner(k.GetAgent(), k.GetIncarnation(), who); err != nil {
		return nil, false, err
	}
	if c.closed {
		return nil, false, errClosing // the next coordinator takes it
	}
	r = c.queue.runs[k.GetRunId()]
	if r == nil || !r.inProgress {
		return nil, false, nil
	}
	if !r.isRebuilt() {
		return nil, false, errReading
	}
	return r, from != nil && from.Incarnation == k.GetIncarnation() &&
		clock.Now().Sub(from.Heard) < c.cfg.Run.Silence, nil
}
