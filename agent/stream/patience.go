package stream

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/clock"
)

// patience bounds how long a stream may keep one waiting. 0: it may.
type patience struct {
	first time.Duration // for its first token
	gap   time.Duration // from then on for each event
}

var (
	errFirstTokenTimeout = errors.New("first token timeout")
	errGapTimeout        = errors.New("gap timeout")
)

// watch ends a request whose stream keeps one waiting too long. An event costs it no more than a store: the timer looks
// when the last one came as it fires, and waits on if that was not long ago.
type watch struct {
	patience
	ctx   context.Context // ends with errFirstTokenTimeout or errGapTimeout
	end   context.CancelCauseFunc
	timer *time.Timer
	late  time.Duration        // for which the program was behind; only look uses it
	last  atomic.Int64         // when an event came, from the first token on; 0: none did
	conn  atomic.Pointer[conn] // of the request; nil: none yet
}

// whileUnread is how long a program that is behind with reading is given before it is looked at again, and mostUnread
// how long in all: a server that sends without end, and no event, is not to be waited for.
const (
	whileUnread = 5 * time.Millisecond
	mostUnread  = time.Second
)

// watch begins with a request. The caller stops it.
func (p patience) watch(ctx context.Context, start clock.Instant) *watch {
	w := &watch{patience: p}
	w.ctx, w.end = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(time.Hour, w.look)
	if p.first > 0 {
		w.timer.Reset(clock.Until(start.Add(p.first)))
	} else {
		w.timer.Stop()
	}
	return w
}

// heard takes in that an event came, the first token or later.
func (w *watch) heard(at clock.Instant) {
	first := w.last.Swap(int64(at)) == 0
	switch {
	case !first:
	case w.gap > 0:
		w.timer.Reset(w.gap)
	default:
		w.timer.Stop()
	}
}

// look runs when the timer fires, which may be while the request ends.
func (w *watch) look() {
	unread := w.unread()
	last := clock.Instant(w.last.Load()) // behind it: what a sweeper has read, it has taken in by now
	switch {
	case w.ctx.Err() != nil:
		return
	case unread && w.late < mostUnread:
		w.late += whileUnread
		w.timer.Reset(whileUnread)
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

// unread says whether something came that the program has not read yet: then it is the one that is late, and not the
// server.
func (w *watch) unread() bool {
	c := w.conn.Load()
	return c != nil && c.unread()
}

// stop ends the watch.
func (w *watch) stop() {
	w.timer.Stop()
	w.end(nil)
}
