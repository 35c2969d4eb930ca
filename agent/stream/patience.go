package stream

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/clock"
)

// patience bounds the silences of a stream. 0: not bounded.
type patience struct {
	first time.Duration // until its first token
	gap   time.Duration // from then on, until each next event
}

var (
	errFirstTokenTimeout = errors.New("first token timeout")
	errGapTimeout        = errors.New("gap timeout")
)

// watch cancels a request whose stream is silent for too long. An event costs only an atomic store: when the timer
// fires it looks at the time of the last event, and waits on if that is recent.
type watch struct {
	patience
	ctx    context.Context // ends with errFirstTokenTimeout or errGapTimeout
	end    context.CancelCauseFunc
	timer  *time.Timer
	behind time.Duration             // how long the program has been behind; only onTimer uses it
	last   atomic.Int64              // time of the last event, from the first token on; 0: none
	conn   atomic.Pointer[wire.Conn] // of the request; nil: none yet
}

// unreadWait is how long onTimer waits for a program that is behind with reading before it looks again, and
// maxUnreadWait is the limit of the sum of such waits: a server that sends bytes without end, but no event, must not
// prevent the timeout.
const (
	unreadWait    = 5 * time.Millisecond
	maxUnreadWait = time.Second
)

// watch starts a watch for a request. The caller stops it.
func (p patience) watch(ctx context.Context, start clock.Instant) *watch {
	w := &watch{patience: p}
	w.ctx, w.end = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(time.Hour, w.onTimer)
	if p.first > 0 {
		w.timer.Reset(clock.Until(start.Add(p.first)))
	} else {
		w.timer.Stop()
	}
	return w
}

// sawEvent records that an event came at or after the first token.
func (w *watch) sawEvent(at clock.Instant) {
	first := w.last.Swap(int64(at)) == 0
	switch {
	case !first:
	case w.gap > 0:
		w.timer.Reset(w.gap)
	default:
		w.timer.Stop()
	}
}

// onTimer runs when the timer fires, which may be while the request ends.
func (w *watch) onTimer() {
	unread := w.unread()
	last := clock.Instant(w.last.Load()) // loaded after unread: what a sweeper has read is recorded by now
	switch {
	case w.ctx.Err() != nil:
		return
	case unread && w.behind < maxUnreadWait:
		w.behind += unreadWait
		w.timer.Reset(unreadWait)
		return
	case last == 0:
		w.end(errFirstTokenTimeout)
		return
	case w.gap == 0:
		return
	}
	if left := clock.Until(last.Add(w.gap)); left > 0 {
		w.timer.Reset(left)
		return
	}
	w.end(errGapTimeout)
}

// unread reports whether bytes have come that the program has not read yet. Then the program is late, not the server.
func (w *watch) unread() bool {
	c := w.conn.Load()
	return c != nil && c.Unread()
}

// stop ends the watch.
func (w *watch) stop() {
	w.timer.Stop()
	w.end(nil)
}
