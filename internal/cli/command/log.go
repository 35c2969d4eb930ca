package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// FilterLog sends Go's own log to w, without what servers send unasked: net/http logs that as it is, and it may repeat
// a secret.
func FilterLog(w io.Writer) { log.SetOutput(asked{w}) }

type asked struct{ io.Writer }

// Write drops a line about an unsolicited answer.
func (a asked) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("Unsolicited response received")) {
		return len(line), nil
	}
	return a.Writer.Write(line)
}

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

// Sentences is the log format of programs that a person watches: what happened, why, and about what, in one line
// without time, level and keys of the run, which is the only one.
const Sentences = "sentences"

// sentenceHandler writes records as sentences.
type sentenceHandler struct {
	w     io.Writer // takes a line with each call
	level slog.Level
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h *sentenceHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

// WithGroup implements slog.Handler. Names of attributes stay as they are.
func (h *sentenceHandler) WithGroup(string) slog.Handler { return h }

// WithAttrs implements slog.Handler.
func (h *sentenceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sentenceHandler{h.w, h.level, slices.Concat(h.attrs, attrs)}
}

// Handle implements slog.Handler.
func (h *sentenceHandler) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clone(h.attrs)
	r.Attrs(func(a slog.Attr) bool { attrs = append(attrs, a); return true })
	why, stack := "", ""
	var about []string
	for _, a := range attrs {
		value := strings.TrimSpace(readable(nil, a).Value.String())
		switch {
		case value == "", a.Key == "run", a.Key == "stage_index":
		case a.Key == "stack":
			stack = "\n" + value
		case a.Key == "error", a.Key == "reason", a.Key == "fault":
			why += ": " + value
		default:
			about = append(about, strings.ReplaceAll(a.Key, "_", " ")+" "+value)
		}
	}
	text := "spate: " + r.Message + why
	if len(about) > 0 {
		text += " (" + strings.Join(about, ", ") + ")"
	}
	_, err := fmt.Fprintln(h.w, text+stack)
	return err
}
