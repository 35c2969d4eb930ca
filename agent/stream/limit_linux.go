package stream

import (
	"os"
	"sync"
	"time"
)

// limit is a deadline of a socket. The zero value is one that never passes; nothing is made for it until somebody waits
// or sets it.
type limit struct {
	mu    sync.Mutex
	at    time.Time     // zero: never
	done  chan struct{} // closed when it has passed; nil: nobody has waited for it yet
	timer *time.Timer
}

// set moves the limit to an instant, the zero time for none. Whoever waits for a limit that lies in the past is woken
// at once.
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

// pass ends waits, unless the limit was moved since the timer was set.
func (l *limit) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.at.IsZero() && time.Until(l.at) <= 0 && !l.isOver() {
		close(l.done)
	}
}

// over is os.ErrDeadlineExceeded once the limit has passed.
func (l *limit) over() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil && l.isOver() {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// passed is closed when the limit passes.
func (l *limit) passed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
	}
	return l.done
}

// end lets go of the timer.
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
