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
	"github.com/spate-load/spate/clock/far"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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
			clock:   far.New(nil),
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
