package coordinator

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/admission"
	"github.com/spate-load/spate/coordinator/relayed"
	"github.com/spate-load/spate/coordinator/streams"
	"github.com/spate-load/spate/internal/reason"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// controlService is the service that agents call.
type controlService struct {
	spatev1.UnimplementedControlServiceServer
	c *Coordinator
}

// ProbeClock answers with this machine's monotonic clock.
func (controlService) ProbeClock(context.Context, *spatev1.ProbeClockRequest) (*spatev1.ProbeClockResponse, error) {
	received := clock.Now()
	return &spatev1.ProbeClockResponse{ReceivedClockNs: int64(received), SentClockNs: int64(clock.Now())}, nil
}

// FetchDataset sends a dataset to an agent, from an offset on.
func (s controlService) FetchDataset(
	q *spatev1.FetchDatasetRequest, stream spatev1.ControlService_FetchDatasetServer,
) error {
	return s.c.datasets.FetchDataset(q, stream)
}

// helloTimeout is how long a new connection may take to send its Hello.
const helloTimeout = 10 * time.Second

// Connect holds an agent's control stream until either side ends it.
func (s controlService) Connect(stream spatev1.ControlService_ConnectServer) error {
	var beats streams.Beats
	in, quit := streams.Receive(func() (*spatev1.ConnectRequest, error) { return beats.Received(stream.Recv()) })
	defer quit()
	send := func(m *spatev1.ConnectResponse) error {
		beats.Answer(m, clock.Offset{})
		return stream.Send(m)
	}
	who, _ := certs.PeerOf(stream.Context())
	return s.serve(in, send, admission.Origin{Address: admission.AddressOf(stream.Context()), Who: who})
}

// serve holds an agent's session, whatever carries its messages, until either side ends it. It returns why, and nil if
// the agent did.
func (s controlService) serve(
	in <-chan relayed.FromAgent, send func(*spatev1.ConnectResponse) error, from admission.Origin,
) error {
	hello, err := s.hello(in)
	if err != nil {
		return err
	}
	session, err := s.c.join(hello, from)
	if err != nil {
		return err
	}
	err = s.converse(send, session, in)
	s.c.leave(session, reasonOf(err))
	return err
}

// hello waits for the first message.
func (s controlService) hello(in <-chan relayed.FromAgent) (*spatev1.Hello, error) {
	timeout := time.NewTimer(helloTimeout)
	defer timeout.Stop()
	select {
	case m := <-in:
		if m.Err != nil {
			return nil, m.Err
		}
		return m.Message.GetHello(), admission.CheckHello(m.Message.GetHello())
	case <-timeout.C:
		return nil, status.Errorf(codes.DeadlineExceeded, "no Hello within %v", helloTimeout)
	case <-s.c.closing:
		return nil, errClosing
	}
}

var errClosing = status.Error(codes.Unavailable, "the coordinator is closing")

// converse carries messages both ways until one side ends. A nil error means that the agent closed the stream.
func (s controlService) converse(
	send func(*spatev1.ConnectResponse) error, session *session, in <-chan relayed.FromAgent,
) error {
	for {
		select {
		case m := <-in:
			if errors.Is(m.Err, io.EOF) {
				return nil
			}
			if m.Err != nil {
				return m.Err
			}
			s.c.hear(session, m.Message)
		case m := <-session.outbox:
			if err := send(m); err != nil {
				return err
			}
		case <-session.gone:
			return session.reason
		case <-s.c.closing:
			return streams.Flush(session.outbox, send, errClosing)
		}
	}
}

// reasonOf returns, for people, why a control stream ended.
func reasonOf(err error) string {
	switch {
	case err == nil:
		return "it closed its control stream"
	case status.Code(err) == codes.Canceled:
		return "control stream broken"
	default:
		return "control stream ended: " + reason.Plain(err.Error())
	}
}
