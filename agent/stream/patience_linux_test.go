package stream

import (
	"context"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/stream/socket"
	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/clock"
)

// slowReader is a consumer that is busy until end is closed.
type slowReader struct{ begun, end chan struct{} }

func (r *slowReader) Consume([]byte, socket.Reading) bool {
	close(r.begun)
	<-r.end
	return false
}

// The server is not reported as late while the sweeper handles bytes that it has just read, when the kernel has none
// left.
func TestNoTimeoutWhileASweeperReads(t *testing.T) {
	for name, last := range map[string]clock.Instant{"first token": 0, "gap": 1} {
		t.Run(name, func(t *testing.T) {
			one, far := testserver.OpenSocket(t)
			w := patience{first: time.Hour, gap: time.Hour}.watch(t.Context(), clock.Now())
			defer w.stop()
			w.last.Store(int64(last))
			w.conn.Store(&wire.Conn{Socket: one})
			reading := &slowReader{make(chan struct{}), make(chan struct{})}
			pushed := make(chan error)
			go func() { pushed <- one.Push(t.Context(), reading) }()
			io.WriteString(far, "a")
			<-reading.begun
			looked := make(chan struct{})
			go func() { w.onTimer(); close(looked) }()
			for range 1000 { // until onTimer has started
				runtime.Gosched()
			}
			w.sawEvent(clock.Now())
			close(reading.end)
			<-looked
			if err := <-pushed; err != nil {
				t.Error(err)
			}
			if w.ctx.Err() != nil {
				t.Error(context.Cause(w.ctx))
			}
		})
	}
}

// A request that has ended is not looked at again, even if its connection has unread bytes.
func TestTimerOfAnEndedRequest(t *testing.T) {
	one, other := testserver.OpenSocket(t)
	w := patience{first: time.Hour}.watch(t.Context(), clock.Now())
	w.conn.Store(&wire.Conn{Socket: one})
	io.WriteString(other, "the next response")
	for !one.Unread() {
		runtime.Gosched()
	}
	w.stop()
	w.onTimer() // as if the timer had already fired
	if w.timer.Stop() {
		t.Error("it will look again")
	}
}
