package socket

import (
	"os"
	"sync"
	"time"
)

// limit is a deadline of a socket. The zero value never passes. Its channel is created when somebody waits for it or
// sets it.
type limit struct {
	mu    sync.Mutex
	at    time.Time     // zero: never passes
	done  chan struct{} // closed when it has passed; nil: not waited for or set yet
	timer *time.Timer
}

// set moves the limit to t; the zero time means no limit. If t is in the past, waiters are woken at once.
func (l *limit) set(t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
	if l.done == nil || l.isOver() {
		l.done = make(chan struct{})
	}
	if l.at = t; t.IsZero() {
		return
	}
	if left := time.Until(t); left > 0 {
		l.timer = time.AfterFunc(left, l.pass)
		return
	}
	close(l.done)
}

// pass wakes waiters, unless the limit was moved after the timer was set.
func (l *limit) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.at.IsZero() && time.Until(l.at) <= 0 && !l.isOver() {
		close(l.done)
	}
}

// over returns os.ErrDeadlineExceeded once the limit has passed.
func (l *limit) over() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil && l.isOver() {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// passed returns a channel that is closed when the limit passes.
func (l *limit) passed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
	}
	return l.done
}

// end stops the timer.
func (l *limit) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
}

func (l *limit) stop() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

func (l *limit) isOver() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}
