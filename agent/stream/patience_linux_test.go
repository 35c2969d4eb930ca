package stream

import (
	"context"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/spate-load/spate/clock"
)

// A program does not say that the server was late while its sweeper takes in what it has just read, so that the kernel
// has nothing left.
func TestPatienceWhileASweeperReads(t *testing.T) {
	for name, last := range map[string]clock.Instant{"first token": 0, "gap": 1} {
		t.Run(name, func(t *testing.T) {
			one, _ := newSockets(t)
			w := patience{first: time.Hour, gap: time.Hour}.watch(t.Context(), clock.Now())
			defer w.stop()
			w.last.Store(int64(last))
			w.conn.Store(&conn{socket: one})
			one.mu.Lock() // as the sweeper does
			looked := make(chan struct{})
			go func() { w.look(); close(looked) }()
			for range 1000 { // it has begun to look
				runtime.Gosched()
			}
			w.heard(clock.Now())
			one.mu.Unlock()
			<-looked
			if w.ctx.Err() != nil {
				t.Error(context.Cause(w.ctx))
			}
		})
	}
}

// A request that is over is looked at no more, whatever its connection has unread.
func TestPatienceEnds(t *testing.T) {
	one, other := newSockets(t)
	w := patience{first: time.Hour}.watch(t.Context(), clock.Now())
	w.conn.Store(&conn{socket: one})
	io.WriteString(other, "the next response")
	for !one.unread() {
		runtime.Gosched()
	}
	w.stop()
	w.look() // it had fired
	if w.timer.Stop() {
		t.Error("it will look again")
	}
}
