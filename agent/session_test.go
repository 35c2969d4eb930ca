package agent

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/spate-load/spate/agent/outbox"
	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/agent/supervisor"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// The answer to a heartbeat is a sample of the coordinator's clock, if it has the times.
func TestAHeartbeatIsAClockProbe(t *testing.T) {
	s := &session{
		agent: &Agent{supervisor: supervisor.New(&ready.Resources{}, nil, nil)}, clock: newCoordinatorClock(nil),
	}
	sent, now := clock.Now(), clock.Now().Add(time.Millisecond)
	s.beats.remember(1, sent)
	s.renewed(&spatev1.Renewed{Number: 1}, now)
	if o, known := s.clock.Now(); known {
		t.Errorf("without times: %v", o)
	}
	s.beats.remember(2, sent)
	there := int64(sent.Add(time.Hour))
	s.renewed(&spatev1.Renewed{Number: 2, ReceivedClockNs: there, SentClockNs: there + 1}, now)
	if o, known := s.clock.Now(); !known || time.Duration(o.Nanos).Round(time.Second) != time.Hour {
		t.Errorf("offset %v, known %v", o, known)
	}
	s.renewed(&spatev1.Renewed{Number: 2, ReceivedClockNs: 1, SentClockNs: 1}, now) // answered already
	if o, _ := s.clock.Now(); time.Duration(o.Nanos).Round(time.Second) != time.Hour {
		t.Errorf("after a second answer: %v", o)
	}
}

// brokenStream is a control stream that has ended: only Recv has the reason.
type brokenStream struct {
	grpc.BidiStreamingClient[spatev1.ConnectRequest, spatev1.ConnectResponse]
}

func (brokenStream) Send(*spatev1.ConnectRequest) error { return io.EOF }

// A heartbeat that cannot be sent ends the session, but the stream's own reason is reported.
func TestHeartbeatsLeaveTheReasonToTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancelCause(t.Context())
		s := &session{
			agent:   &Agent{supervisor: supervisor.New(&ready.Resources{}, nil, nil), outbox: outbox.New("a", 1, 1<<20)},
			ctx:     ctx,
			control: brokenStream{},
			clock:   newCoordinatorClock(nil),
		}
		ended := make(chan error, 1)
		go func() { ended <- s.heartbeats(time.Millisecond) }()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("ended by %v before the stream said why", err)
		default:
		}
		end(errors.New("cut"))
		if err := <-ended; errors.Is(err, io.EOF) {
			t.Errorf("ended by %v", err)
		}
	})
}
