package coordinator

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/coordinator/live"
	"github.com/spate-load/spate/coordinator/storage"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// intake counts snapshots.
type intake struct {
	written, duplicates, refused, dropped atomic.Uint64
}

func (i *intake) stats() Stats {
	return Stats{Snapshots: i.written.Load(), Duplicates: i.duplicates.Load(), Refused: i.refused.Load(),
		Dropped: i.dropped.Load()}
}

// metricsService receives what agents measured.
type metricsService struct {
	spatev1.UnimplementedMetricsServiceServer
	c *Coordinator
}

// Push receives snapshots until the agent closes the stream. Each snapshot is durable before it is acknowledged.
// Snapshots from different agents share the ledger's writes.
func (s metricsService) Push(stream spatev1.MetricsService_PushServer) error {
	who, _ := certs.PeerOf(stream.Context())
	in, quit := receive(stream.Recv)
	defer quit()
	for {
		select {
		case m := <-in:
			if m.err != nil {
				return s.c.pushEnded(m.err, access.AddressOf(stream.Context()))
			}
			if err := s.c.awaitRebuilt(stream.Context(), m.message.GetSnapshot().GetKey().GetRunId()); err != nil {
				return err
			}
			answer, err := s.c.receiveSnapshot(m.message.GetSnapshot(), who)
			if err != nil {
				return err
			}
			if err := stream.Send(answer); err != nil {
				return err
			}
		case <-s.c.closing:
			return errClosing
		}
	}
}

// pushEnded returns the error with which a stream of snapshots ends, nil if the sender closed it. A message that cannot
// be decoded or is too large counts as a refused snapshot.
func (c *Coordinator) pushEnded(err error, address string) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	var limit access.LimitError // was counted already
	if code := status.Code(err); (code == codes.ResourceExhausted || code == codes.Internal) &&
		!errors.As(err, &limit) {
		c.intake.refused.Add(1)
		c.log.Warn("unreadable snapshot refused", "address", address, "error", err)
	}
	return err
}

// errDropped refuses a snapshot that comes too late: other agents have been told to take the work over, or the result
// was computed without the snapshot.
var errDropped = errors.New("the agent was lost, and its part of the stage was dropped or taken over")

// errRunFaulted ends the stream of an agent whose run has ended by a panic.
var errRunFaulted = status.Error(codes.Internal, "the run has ended by an internal fault of the coordinator")

// receiveSnapshot adds one snapshot to the ledger and the merge, and returns the answer. who is the authenticated peer.
// An error ends the stream: the agent keeps the snapshot and sends it again.
func (c *Coordinator) receiveSnapshot(
	s *spatev1.Snapshot,
	who certs.Identity,
) (answer *spatev1.PushResponse, err error) {
	r, heard, err := c.senderOf(s.GetKey(), who)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return c.addSnapshot(r, s, heard)
	}
	err = errRunFaulted
	c.guarded(r, func() { answer, err = c.addSnapshot(r, s, heard) })
	return answer, err
}

// addSnapshot is receiveSnapshot once the run is known. r is nil if the snapshot's run is not in progress.
func (c *Coordinator) addSnapshot(r *run, s *spatev1.Snapshot, heard bool) (*spatev1.PushResponse, error) {
	if r == nil && c.endedWith(s) {
		c.intake.duplicates.Add(1)
		return &spatev1.PushResponse{Key: s.GetKey()}, nil
	}
	if r == nil {
		return c.refuse(nil, s, false, fmt.Errorf("run %.80q is not in progress here", s.GetKey().GetRunId())), nil
	}
	m, ok := r.stages.Get(s.GetStageIndex())
	if !ok {
		return c.refuse(r, s, heard, fmt.Errorf("stage %d has not been assigned", s.GetStageIndex()+1)), nil
	}
	checked, err := merge.Check(s, r.record, m.Record)
	if err != nil && lossOf(m.Record, s.GetKey()) == nil { // keepAndTell judges a lost agent's
		return c.refuse(r, s, heard, err), nil
	}
	fresh, err := c.keepAndTell(r, m, s, checked)
	switch {
	case errors.Is(err, errDropped):
		c.intake.dropped.Add(1)
		c.log.Info("snapshot of a lost agent refused", "agent", s.GetKey().GetAgent(),
			"sequence", s.GetKey().GetSequence())
		return &spatev1.PushResponse{Key: s.GetKey(), Refused: err.Error()}, nil
	case errors.Is(err, ledger.ErrClosed):
		return c.answerLate(r, s, heard, err)
	case errors.Is(err, ledger.ErrConflict):
		return c.refuse(r, s, heard, err), nil
	case err != nil:
		c.ledgerFailed(r, err)
		return nil, errUnwritten
	case fresh:
		c.intake.written.Add(1)
	default:
		c.intake.duplicates.Add(1)
	}
	return &spatev1.PushResponse{Key: s.GetKey()}, nil
}

// answerLate answers a snapshot that came when its run's ledger had been closed. It blocks until the run has ended:
// until then its ledger may still be locked.
func (c *Coordinator) answerLate(
	r *run, s *spatev1.Snapshot, heard bool, reason error,
) (answer *spatev1.PushResponse, err error) {
	<-r.ended
	switch {
	case c.endedWith(s): // sent again while the run ended
		c.intake.duplicates.Add(1)
		return &spatev1.PushResponse{Key: s.GetKey()}, nil
	case c.leaves(): // the agent sends it again to the next coordinator
		return nil, errClosing
	}
	return c.refuse(r, s, heard, reason), nil
}

// leaves reports whether the coordinator is shutting down.
func (c *Coordinator) leaves() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// endedWith reports whether a snapshot is in the ledger of a run that has ended. If so, its acknowledgement was lost:
// perhaps with an earlier process of the coordinator, so that the run is not in memory.
func (c *Coordinator) endedWith(s *spatev1.Snapshot) bool {
	id := s.GetKey().GetRunId()
	if !storage.Valid(id) {
		return false
	}
	found, err := ledger.Holds(c.storage.Ledger(id), id, s.GetStageIndex(), s.GetKey())
	return err == nil && found // a waiting run's ledger is locked, and holds no snapshots
}

// senderOf returns the run to which a snapshot belongs, nil if it is not in progress, and whether its agent was
// heard recently. It fails if the agent is connected with another certificate than the one the snapshot came with.
func (c *Coordinator) senderOf(k *spatev1.SnapshotKey, who certs.Identity) (r *run, heard bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.sessions[k.GetAgent()]
	if from != nil && from.Who != who {
		c.admission.CallsRefused.Add(1)
		return nil, false, status.Errorf(codes.PermissionDenied,
			"agent %s is connected with the certificate of %s: %s cannot push in its name",
			k.GetAgent(), from.Who, who)
	}
	if err := c.checkOwner(k.GetAgent(), owner{incarnation: k.GetIncarnation(), who: who}); err != nil {
		return nil, false, err
	}
	if c.closed {
		return nil, false, errClosing // the next coordinator takes it
	}
	r = c.runs[k.GetRunId()]
	if r == nil || !c.inProgress(r) {
		return nil, false, nil
	}
	if !r.isRebuilt() {
		return nil, false, errReading
	}
	return r, from != nil && from.incarnation == k.GetIncarnation() &&
		clock.Now().Sub(from.heard) < c.cfg.Run.Silence, nil
}

// keepAndTell adds a snapshot to the ledger, and tells the machine if it is new there. The machine may drop the
// agent's part while the snapshot is being written. The snapshot is then kept but does not count: the record says from
// which window on nothing counts (merge.InResult).
func (c *Coordinator) keepAndTell(
	r *run, m live.Stage, s *spatev1.Snapshot, checked merge.Checked,
) (fresh bool, err error) {
	defer r.claims.Claim(s.GetKey())()
	if lossOf(m.Record, s.GetKey()) != nil {
		return false, alreadyKept(r, s)
	}
	if fresh, err = c.keep(r, s, checked); !fresh || err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.feed(r, func(r *run, at clock.Instant) { r.machine.Merged(at, s) })
	return true, nil
}

// alreadyKept returns nil if a lost agent's snapshot is in the ledger, and errDropped if it is not.
func alreadyKept(r *run, s *spatev1.Snapshot) error {
	switch known, err := r.ledger.Has(s.GetStageIndex(), s.GetKey()); {
	case err != nil:
		return err
	case !known:
		return errDropped
	}
	return nil
}

// lossOf returns what was lost with the process that sent a snapshot, nil if the process was not lost.
func lossOf(rec *spatev1.StageRecord, k *spatev1.SnapshotKey) *spatev1.Loss {
	return merge.Assigned(rec, k).GetLoss()
}

// keep adds a snapshot to the ledger and, if it is new there, to the merge. A snapshot that comes after its stage has
// ended is only in the ledger, where the report finds it.
func (c *Coordinator) keep(r *run, s *spatev1.Snapshot, checked merge.Checked) (fresh bool, err error) {
	if fresh, err := r.disk.Append(s); err != nil || !fresh {
		return false, err
	}
	if err := r.stages.Merge(s, checked); err != nil {
		c.log.Error("snapshot passed the check and cannot be merged", "error", err)
	}
	return true, nil
}

// refuse counts and logs a refused snapshot and returns the answer. It blocks until the consequences for the run are
// durable, because the agent then discards the snapshot.
func (c *Coordinator) refuse(r *run, s *spatev1.Snapshot, heard bool, reason error) *spatev1.PushResponse {
	c.intake.refused.Add(1)
	c.log.Warn("snapshot refused", "agent", s.GetKey().GetAgent(), "sequence", s.GetKey().GetSequence(),
		"reason", reason)
	if r != nil {
		<-c.refused(r, s, heard, reason)
	}
	return &spatev1.PushResponse{Key: s.GetKey(), Refused: reason.Error()}
}

// maxRefusalsTold bounds the refused snapshots that are reported to a run's followers, so that an agent that sends
// garbage does not crowd out other notices.
const maxRefusalsTold = 16

// refused tells the run's followers, and ends the assignment of the snapshot's agent if heard is true: the agent is
// connected and sent the snapshot itself. It returns a channel that is closed when this is durable.
func (c *Coordinator) refused(r *run, s *spatev1.Snapshot, heard bool, reason error) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.feed(r, func(r *run, at clock.Instant) {
		c.tellRefused(r, s, at, reason)
		if heard {
			r.machine.Refused(at, s, reason.Error())
		}
	})
	return c.written(r)
}

// tellRefused tells the run's followers of a refused snapshot. c.mu is held.
func (c *Coordinator) tellRefused(r *run, s *spatev1.Snapshot, at clock.Instant, reason error) {
	if r.refused == maxRefusalsTold {
		return
	}
	text := fmt.Sprintf("refused snapshot %d of agent %.64q: %v", s.GetKey().GetSequence(),
		s.GetKey().GetAgent(), reason)
	if r.refused++; r.refused == maxRefusalsTold {
		text += " (further ones are in the coordinator's log only)"
	}
	r.machine.Warn(at, text)
}

// ledgerFailed ends the run, because a run must not measure what it cannot keep.
func (c *Coordinator) ledgerFailed(r *run, err error) {
	c.log.Error("ledger cannot be written", "run", r.id, "error", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abort(r, fmt.Sprintf("the ledger cannot be written: %v", err))
}

// errUnwritten ends the streams of agents whose snapshots cannot be kept. They send them again.
var errUnwritten = status.Error(codes.Unavailable, "the coordinator cannot write its ledger")
