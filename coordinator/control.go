package coordinator

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/admission"
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
	in, quit := receive(stream.Recv)
	defer quit()
	hello, err := s.hello(in)
	if err != nil {
		return err
	}
	who, _ := certs.PeerOf(stream.Context())
	session, err := s.c.join(hello, admission.AddressOf(stream.Context()), who)
	if err != nil {
		return err
	}
	err = s.converse(stream, session, in)
	s.c.leave(session, reasonOf(err))
	return err
}

// hello waits for the first message.
func (s controlService) hello(in <-chan received[*spatev1.ConnectRequest]) (*spatev1.Hello, error) {
	timeout := time.NewTimer(helloTimeout)
	defer timeout.Stop()
	select {
	case m := <-in:
		if m.err != nil {
			return nil, m.err
		}
		return m.message.GetHello(), admission.CheckHello(m.message.GetHello())
	case <-timeout.C:
		return nil, status.Errorf(codes.DeadlineExceeded, "no Hello within %v", helloTimeout)
	case <-s.c.closing:
		return nil, errClosing
	}
}

var errClosing = status.Error(codes.Unavailable, "the coordinator is closing")

// converse carries messages both ways until one side ends. A nil error means that the agent closed the stream.
func (s controlService) converse(
	stream spatev1.ControlService_ConnectServer, session *session, in <-chan received[*spatev1.ConnectRequest],
) error {
	for {
		select {
		case m := <-in:
			if errors.Is(m.err, io.EOF) {
				return nil
			}
			if m.err != nil {
				return m.err
			}
			s.c.hear(session, m.message)
		case m := <-session.outbox:
			if err := stream.Send(m); err != nil {
				return err
			}
		case <-session.gone:
			return session.reason
		case <-s.c.closing:
			return flush(stream, session)
		}
	}
}

// flush sends the queued messages, above all stops, before the coordinator closes.
func flush(stream spatev1.ControlService_ConnectServer, session *session) error {
	for {
		select {
		case m := <-session.outbox:
			if err := stream.Send(m); err != nil {
				return err
			}
		default:
			return errClosing
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

// received is one message of a stream, or its end.
type received[M any] struct {
	message M
	err     error
}

// receive reads a stream in its own goroutine, so that a handler can also wait for other things. The channel's last
// message is the stream's first error. The handler calls quit when it returns; the stream then ends, and with it the
// goroutine.
func receive[M any](recv func() (M, error)) (in <-chan received[M], quit func()) {
	out, done := make(chan received[M]), make(chan struct{})
	go func() {
		for {
			m, err := recv()
			select {
			case out <- received[M]{m, err}:
			case <-done:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return out, func() { close(done) }
}

func durationOf(d time.Duration) *durationpb.Duration { return durationpb.New(d) }
