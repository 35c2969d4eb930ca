package coordinator

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/access"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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
