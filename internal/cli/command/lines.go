package command

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// maxLines is how many log lines wait for a reader that is slow.
	maxLines = 1024
	// closeWait is how long close waits for the reader.
	closeWait = time.Second
)

// lines writes log lines on a goroutine of its own, so that a terminal or pipe that is not read does not stop the
// daemon. Lines that find the queue full are dropped, and counted in a line of their own.
type lines struct {
	to   io.Writer
	done chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	queue   chan []byte // closed by close
	closed  bool
	dropped int
}

// newLines starts the goroutine. The caller calls close.
func newLines(to io.Writer) *lines {
	l := &lines{to: to, done: make(chan struct{}), queue: make(chan []byte, maxLines)}
	go l.write()
	return l
}

// Write queues one line. It never blocks and never fails.
func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return len(line), nil
	}
	queued := append([]byte(nil), line...)
	if l.dropped > 0 {
		queued = append(fmt.Appendf(nil, "%d log lines were dropped: the log was read too slowly\n", l.dropped), queued...)
	}
	select {
	case l.queue <- queued:
		l.dropped = 0
	default:
		l.dropped++
	}
	return len(line), nil
}

// write writes queued lines until the queue is closed. A write error is ignored: there is nowhere to report it.
func (l *lines) write() {
	defer close(l.done)
	for line := range l.queue {
		_, _ = l.to.Write(line)
	}
}

// close waits until queued lines are written, for closeWait at most, and drops the lines after that.
func (l *lines) close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-time.After(closeWait):
	}
}
