package stream

import (
	"context"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/spate-load/spate/clock"
)

// The server is not reported as late while the sweeper handles bytes that it has just read, when the kernel has none
// left.
func TestNoTimeoutWhileASweeperReads(t *testing.T) {
	for name, last := range map[string]clock.Instant{"first token": 0, "gap": 1} {
		t.Run(name, func(t *testing.T) {
			one, _ := newSockets(t)
			w := patience{first: time.Hour, gap: time.Hour}.watch(t.Context(), clock.Now())
			defer w.stop()
			w.last.Store(int64(last))
			w.conn.Store(&conn{socket: one})
			one.mu.Lock() // as the sweeper does while it reads
			looked := make(chan struct{})
			go func() { w.onTimer(); close(looked) }()
			for range 1000 { // until onTimer has started
				runtime.Gosched()
			}
			w.sawEvent(clock.Now())
			one.mu.Unlock()
			<-looked
			if w.ctx.Err() != nil {
				t.Error(context.Cause(w.ctx))
			}
		})
	}
}

// A request that has ended is not looked at again, even if its connection has unread bytes.
func TestTimerOfAnEndedRequest(t *testing.T) {
	one, other := newSockets(t)
	w := patience{first: time.Hour}.watch(t.Context(), clock.Now())
	w.conn.Store(&conn{socket: one})
	io.WriteString(other, "the next response")
	for !one.unread() {
		runtime.Gosched()
	}
	w.stop()
	w.onTimer() // as if the timer had already fired
	if w.timer.Stop() {
		t.Error("it will look again")
	}
}
