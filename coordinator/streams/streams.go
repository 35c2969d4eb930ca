// Package streams is about the gRPC streams of servers with many agents: it reads them for handlers that also wait for
// other things, gathers small messages into few large ones, and compresses those.
package streams

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Received is one message of a stream, or its end.
type Received[M any] struct {
	Message M
	Err     error
}

// Receive reads a stream in its own goroutine, so that a handler can also wait for other things. The channel's last
// message is the stream's first error. The handler calls quit when it returns; the stream then ends, and with it the
// goroutine.
func Receive[M any](recv func() (M, error)) (in <-chan Received[M], quit func()) {
	out, done := make(chan Received[M]), make(chan struct{})
	go func() {
		for {
			m, err := recv()
			select {
			case out <- Received[M]{m, err}:
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

// Flush sends what is queued for a stream that ends for a reason, and returns the reason: a stop must reach its agent.
func Flush[M any](queue <-chan M, send func(M) error, reason error) error {
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

// EndOf returns how a stream ended, for the other side of a relay. nil and io.EOF are its regular end.
func EndOf(err error) *spatev1.StreamEnded {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	s := status.Convert(err)
	return &spatev1.StreamEnded{Code: uint32(s.Code()), Reason: s.Message()}
}

// ErrorOf returns the error with which a stream ended on the other side of a relay, io.EOF for its regular end.
func ErrorOf(e *spatev1.StreamEnded) error {
	if codes.Code(e.GetCode()) == codes.OK {
		return io.EOF
	}
	return status.Error(codes.Code(e.GetCode()), e.GetReason())
}

// Linger is how long the first message of a batch waits for others. It is short against all times that heartbeats and
// clocks are about, and long enough for most of what many agents say at the same moment.
const Linger = 5 * time.Millisecond

// patience is how long heartbeats and their answers wait for others. Each agent has one a second, so that of a thousand
// agents a hundred come together: compressed, they take half of what they take in batches of a few. It is short against
// the silence after which an agent is lost, and leases count from heartbeats that were answered, whenever that was.
const patience = 100 * time.Millisecond

// Gather returns the next messages of a channel: it waits for the first, and for others that come shortly after it,
// until they have about so many bytes. If ctx ends first, it returns what it has received, with ctx's error.
func Gather[M proto.Message](ctx context.Context, in <-chan M, bytes int) (batch []M, err error) {
	var timer <-chan time.Time // nil: the first message has not come
	wait := time.Duration(math.MaxInt64)
	for bytes > 0 {
		select {
		case m := <-in:
			if w := waitOf(m); w < wait {
				wait, timer = w, time.After(w)
			}
			batch, bytes = append(batch, m), bytes-proto.Size(m)
		case <-timer:
			return batch, nil
		case <-ctx.Done():
			return batch, ctx.Err()
		}
	}
	return batch, nil
}

// waitOf returns how long a message may wait for others.
func waitOf(m proto.Message) time.Duration {
	switch m := m.(type) {
	case *spatev1.FromAgent:
		if h := m.GetSaid().GetHeartbeat(); h != nil && h.GetEnded() == nil && !h.GetLeaving() {
			return patience
		}
	case *spatev1.ToAgent:
		if r := m.GetSay().GetRenewed(); r != nil && !r.GetAllEnded() && !r.GetReleased() {
			return patience
		}
	}
	return Linger
}
