package relay

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/admission"
	"github.com/spate-load/spate/coordinator/streams"
	"github.com/spate-load/spate/internal/reason"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Why a relay ends the streams of its agents. They come back, here or at another address.
var (
	errClosing  = status.Error(codes.Unavailable, "the relay is closing")
	errNoLink   = status.Error(codes.Unavailable, "the relay is not connected to its coordinator")
	errLinkLost = status.Error(codes.Unavailable, "the relay has lost its coordinator")
)

// controlService is the service that agents call.
type controlService struct {
	spatev1.UnimplementedControlServiceServer
	r *Relay
}

// Connect carries an agent's control stream until either side ends it.
func (s controlService) Connect(stream spatev1.ControlService_ConnectServer) error {
	l := s.r.link.Load()
	if l == nil {
		return errNoLink
	}
	var beats streams.Beats
	in, quit := streams.Receive(func() (*spatev1.ConnectRequest, error) { return beats.Received(stream.Recv()) })
	defer quit()
	number, down := l.controls.add()
	defer l.controls.remove(number)
	s.r.agents.Add(1)
	defer s.r.agents.Add(-1)
	who, _ := certs.PeerOf(stream.Context())
	err := l.say(&spatev1.FromAgent{Stream: number, Event: &spatev1.FromAgent_Connected{
		Connected: &spatev1.AgentConnected{Address: admission.AddressOf(stream.Context()), Certificate: who.Name},
	}})
	if err != nil {
		return err
	}
	var agent string
	defer func() { s.r.origins.forget(number, agent) }()
	send := func(m *spatev1.ConnectResponse) error {
		s.r.origins.told(agent, m)
		if o, known := l.clock.Now(); known {
			beats.Answer(m, o)
		}
		return stream.Send(m)
	}
	err = carry(l, in, down, send, func(m *spatev1.ConnectRequest) error {
		if agent == "" { // the coordinator ends a stream with a second Hello
			agent = s.r.origins.heard(number, m)
		}
		return l.say(&spatev1.FromAgent{Stream: number, Event: &spatev1.FromAgent_Said{Said: m}})
	})
	_ = l.say(&spatev1.FromAgent{Stream: number, Event: &spatev1.FromAgent_Ended{Ended: streams.EndOf(err)}})
	return regular(err)
}

// regular returns the error of a handler: nil if its stream ended regularly.
func regular(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// say queues a message of an agent. It blocks while the coordinator does not read, until the link ends.
func (l *link) say(m *spatev1.FromAgent) error {
	select {
	case l.said <- m:
		return nil
	case <-l.ctx.Done():
		return errLinkLost
	case <-l.relay.closing:
		return errClosing
	}
}

// carry carries messages from an agent's stream, by up, and to it, until one side or the link ends. It returns why:
// io.EOF if the agent closed its stream.
func carry[In, Out any](
	l *link, in <-chan streams.Received[In], down *downstream[Out], send func(Out) error, up func(In) error,
) error {
	for {
		select {
		case m := <-in:
			if m.Err != nil {
				return m.Err
			}
			if err := up(m.Message); err != nil {
				return err
			}
		case m := <-down.messages:
			if err := send(m); err != nil {
				return err
			}
		case err := <-down.ended:
			return streams.Flush(down.messages, send, err)
		case <-l.ctx.Done():
			return streams.Flush(down.messages, send, errLinkLost)
		case <-l.relay.closing:
			return errClosing
		}
	}
}

// ProbeClock answers with the relay's estimate of the coordinator's clock.
func (s controlService) ProbeClock(context.Context, *spatev1.ProbeClockRequest) (*spatev1.ProbeClockResponse, error) {
	received := clock.Now()
	l := s.r.link.Load()
	if l == nil {
		return nil, errNoLink
	}
	o, known := l.clock.Now()
	if !known {
		return nil, errNoLink
	}
	return &spatev1.ProbeClockResponse{
		ReceivedClockNs: int64(o.There(received)), SentClockNs: int64(o.There(clock.Now())),
		UncertaintyNs: o.Uncertainty.Nanoseconds(),
	}, nil
}

// FetchDataset sends a dataset to an agent, from an offset on. It blocks until the relay has the dataset: the first
// agent that asks makes the relay fetch it.
func (s controlService) FetchDataset(
	q *spatev1.FetchDatasetRequest, stream spatev1.ControlService_FetchDatasetServer,
) error {
	fetched := s.r.fetching.DoChan(q.GetSha256(), func() (any, error) {
		return s.r.datasets.Path(s.r.ctx, &spatev1.Dataset{Sha256: q.GetSha256(), Size: q.GetSize()})
	})
	select {
	case f := <-fetched:
		if s.r.ctx.Err() != nil {
			return errClosing
		}
		if f.Err != nil {
			return status.Errorf(codes.FailedPrecondition, "relay %s: %s", s.r.cfg.Name, reason.Plain(f.Err.Error()))
		}
	case <-stream.Context().Done():
		return stream.Context().Err()
	case <-s.r.closing:
		return errClosing
	}
	return s.r.stored.FetchDataset(q, stream)
}

// metricsService receives what agents measured.
type metricsService struct {
	spatev1.UnimplementedMetricsServiceServer
	r *Relay
}

// Push carries an agent's snapshots and the answers to them until either side ends it.
func (s metricsService) Push(stream spatev1.MetricsService_PushServer) error {
	l := s.r.link.Load()
	if l == nil {
		return errNoLink
	}
	in, quit := streams.Receive(stream.Recv)
	defer quit()
	number, down := l.pushes.add()
	defer l.pushes.remove(number)
	defer l.pushed.close(number)
	who, _ := certs.PeerOf(stream.Context())
	return regular(carry(l, in, down, stream.Send, func(m *spatev1.PushRequest) error {
		return l.push(&spatev1.RelayedSnapshot{Stream: number, Snapshot: m.GetSnapshot(), Certificate: who.Name})
	}))
}

// push queues a snapshot of an agent. It blocks while too many are not answered, until the link ends.
func (l *link) push(s *spatev1.RelayedSnapshot) error {
	size := int64(min(proto.Size(s), maxKept))
	if err := l.room.Acquire(l.ctx, size); err != nil {
		return errLinkLost
	}
	l.pushed.add(s, clock.Now(), func() { l.room.Release(size) })
	return nil
}
