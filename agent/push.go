package agent

import (
	"golang.org/x/sync/errgroup"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// push sends snapshots and handles the answers to them.
func (s *session) push(service spatev1.MetricsServiceClient) error {
	group, ctx := errgroup.WithContext(s.ctx)
	stream, err := service.Push(ctx)
	if err != nil {
		return err
	}
	group.Go(func() error {
		for {
			snapshot, err := s.agent.outbox.Next(ctx)
			if err != nil {
				return err
			}
			if err := stream.Send(&spatev1.PushRequest{Snapshot: snapshot}); err != nil {
				return sendError(ctx, err)
			}
		}
	})
	group.Go(func() error {
		for {
			m, err := stream.Recv()
			if err != nil {
				return err
			}
			s.answered(m)
		}
	})
	return group.Wait()
}

// answered handles an ack or a refusal.
func (s *session) answered(m *spatev1.PushResponse) {
	snapshot := s.agent.outbox.Answered(m.GetKey())
	if snapshot != nil && m.GetRefused() != "" {
		s.agent.supervisor.Refused(snapshot, m.GetRefused())
	}
}
