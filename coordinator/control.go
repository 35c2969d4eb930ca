package coordinator

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/coordinator/fleet"
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
	var beats beats
	var session *fleet.Session // set by the first message
	joined := make(chan *fleet.Session, 1)
	recv := func() (*spatev1.ConnectRequest, error) { return beats.received(stream.Recv()) }
	ended, quit := read(&s.c.ground, recv, func(m *spatev1.ConnectRequest) (err error) {
		if session != nil {
			s.c.hear(session, m)
			return nil
		}
		if err := access.CheckHello(m.GetHello()); err != nil {
			return err
		}
		who, _ := certs.PeerOf(stream.Context())
		session, err = s.c.join(m.GetHello(), access.AddressOf(stream.Context()), who)
		if err == nil {
			joined <- session
		}
		return err
	})
	err := s.converse(joined, ended, func(m *spatev1.ConnectResponse) error {
		beats.answer(m)
		return stream.Send(m)
	})
	quit()
	if session != nil {
		s.c.leave(session, reasonOf(err))
	}
	return err
}

var errClosing = status.Error(codes.Unavailable, "the coordinator is closing")

// converse waits for the agent's Hello, with which its session begins, and then sends what is queued for the agent,
// until one side ends. A nil error means that the agent closed the stream.
func (s controlService) converse(
	joined <-chan *fleet.Session, ended <-chan error, send func(*spatev1.ConnectResponse) error,
) error {
	timeout := time.NewTimer(helloTimeout)
	defer timeout.Stop()
	session := &fleet.Session{} // none yet: its channels are nil
	for {
		select {
		case session = <-joined:
			timeout.Stop()
		case err := <-ended:
			return err
		case m := <-session.Outbox:
			if err := send(m); err != nil {
				return err
			}
		case <-session.Gone:
			return session.Reason
		case <-timeout.C:
			return status.Errorf(codes.DeadlineExceeded, "no Hello within %v", helloTimeout)
		case <-s.c.closing:
			return flush(session.Outbox, send, errClosing)
		}
	}
}

// flush sends what is queued for an agent whose stream ends for a reason, and returns the reason: a stop must reach the
// agent.
func flush(queue <-chan *spatev1.ConnectResponse, send func(*spatev1.ConnectResponse) error, reason error) error {
	for {
		select {
		case m := <-queue:
			if err := send(m); err != nil {
				return err
			}
		default:
			return reason
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

// beats makes the heartbeats of one control stream clock probes: it notes when they came, and adds the times to the
// answers. The zero value is ready to use. It is safe for concurrent use.
type beats struct {
	mu     sync.Mutex
	number uint64 // of the last heartbeat
	at     clock.Instant
}

// received takes what a stream's Recv has returned just now, and returns it.
func (b *beats) received(m *spatev1.ConnectRequest, err error) (*spatev1.ConnectRequest, error) {
	if h := m.GetHeartbeat(); h != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.number, b.at = h.GetNumber(), clock.Now()
	}
	return m, err
}

// answer takes a message that is about to be sent. If it answers the last heartbeat, answer adds the times.
func (b *beats) answer(m *spatev1.ConnectResponse) {
	r := m.GetRenewed()
	if r == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.GetNumber() == b.number {
		r.ReceivedClockNs, r.SentClockNs = int64(b.at), int64(clock.Now())
	}
}
