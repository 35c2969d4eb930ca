package coordinator

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// intake counts snapshots.
type intake struct {
	written, duplicates, refused atomic.Uint64
}

func (i *intake) stats() Stats {
	return Stats{Snapshots: i.written.Load(), Duplicates: i.duplicates.Load(), Refused: i.refused.Load()}
}

// metricsService takes in what agents measured.
type metricsService struct {
	spatev1.UnimplementedMetricsServiceServer
	c *Coordinator
}

// Push takes in snapshots until the agent closes the stream. Each is durable before its ack goes out; calls of different agents
// share the ledger's writes.
func (s metricsService) Push(stream spatev1.MetricsService_PushServer) error {
	in, quit := receive(stream.Recv)
	defer quit()
	for {
		select {
		case m := <-in:
			if m.err != nil {
				return s.ended(stream, m.err)
			}
			answer, err := s.c.take(m.message.GetSnapshot())
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

// ended sorts out why a stream has ended: bytes that are no message, or too many of them, are refused snapshots, too.
func (s metricsService) ended(stream spatev1.MetricsService_PushServer, err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	if code := status.Code(err); code == codes.ResourceExhausted || code == codes.Internal {
		s.c.intake.refused.Add(1)
		s.c.log.Warn("unreadable snapshot refused", "address", addressOf(stream.Context()), "error", err)
	}
	return err
}

// take brings one snapshot into the ledger and the merge, and answers it. An error ends the stream: the agent keeps the snapshot
// and sends it again.
func (c *Coordinator) take(s *spatev1.Snapshot) (*spatev1.PushResponse, error) {
	r := c.runInProgress(s.GetKey().GetRunId())
	if r == nil {
		return c.refuse(nil, s, fmt.Errorf("run %.80q is not in progress here", s.GetKey().GetRunId())), nil
	}
	m, ok := r.stage(s.GetStageIndex())
	if !ok {
		return c.refuse(r, s, fmt.Errorf("stage %d has not been assigned", s.GetStageIndex())), nil
	}
	checked, err := aggregate.Check(s, r.record, m.record)
	if err != nil {
		return c.refuse(r, s, err), nil
	}
	fresh, err := r.ledger.Append([]*spatev1.Snapshot{s})
	switch {
	case errors.Is(err, aggregate.ErrConflict), errors.Is(err, aggregate.ErrClosed):
		return c.refuse(r, s, err), nil
	case err != nil:
		c.ledgerFailed(r, err)
		return nil, status.Error(codes.Unavailable, "the coordinator cannot write its ledger")
	case fresh[0]:
		c.intake.written.Add(1)
		c.merge(r, m, s, checked)
	default:
		c.intake.duplicates.Add(1)
	}
	return &spatev1.PushResponse{Key: s.GetKey()}, nil
}

// runInProgress returns the run of an id if it goes on.
func (c *Coordinator) runInProgress(id string) *run {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active == nil || c.active.id != id {
		return nil
	}
	return c.active
}

// refuse counts a snapshot that is not taken and says why.
func (c *Coordinator) refuse(r *run, s *spatev1.Snapshot, reason error) *spatev1.PushResponse {
	c.intake.refused.Add(1)
	c.log.Warn("snapshot refused", "agent", s.GetKey().GetAgent(), "sequence", s.GetKey().GetSequence(), "reason", reason)
	if r != nil {
		c.warn(r, fmt.Sprintf("refused snapshot %d of agent %.64q: %v", s.GetKey().GetSequence(), s.GetKey().GetAgent(), reason))
	}
	return &spatev1.PushResponse{Key: s.GetKey(), Refused: reason.Error()}
}

// warn tells those who follow the run.
func (c *Coordinator) warn(r *run, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active == r {
		r.machine.Warn(clock.Now(), text)
		c.carryOut(r)
	}
}

// merge adds a snapshot that is new and durable to the stage, and tells the machine. One that comes after its stage has ended
// stays in the ledger, for the report to find.
func (c *Coordinator) merge(r *run, m measured, s *spatev1.Snapshot, checked aggregate.Checked) {
	if m.merged != nil {
		if err := m.merged.AddChecked(checked); err != nil {
			c.log.Error("snapshot passed the check and cannot be merged", "error", err)
		}
		r.saw(s.GetStageIndex(), s.GetWindow())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active == r {
		c.feed(func(r *run, at clock.Instant) { r.machine.Merged(at, s) })
	}
}

// ledgerFailed ends the run: what cannot be kept is not to be measured.
func (c *Coordinator) ledgerFailed(r *run, err error) {
	c.log.Error("ledger cannot be written", "run", r.id, "error", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active == r {
		c.abort(fmt.Sprintf("the ledger cannot be written: %v", err))
	}
}
