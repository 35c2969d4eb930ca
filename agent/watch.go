package agent

import (
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
)

// Watch sees what one worker's requests receive, beside the recorder: calibration compares it with the truth. A worker
// calls it on one goroutine at a time, request after request: Began, then Frame for each event's data and Token behind
// those with token text, then Ended. No method may block or keep what it is given.
type Watch interface {
	// Began says that a request starts, and when it was scheduled.
	Began(scheduled, at clock.Instant)
	// Frame has the data of one event: at is the time of the frame, seen the time at which the program had it.
	Frame(data []byte, at, seen clock.Instant)
	// Token says that the frame before had token text.
	Token()
	// Ended says what became of the request.
	Ended(o *stream.Observation)
}

// watched lets a watch see the worker's requests.
func (w *worker) watched(by Watch) {
	record := w.onToken
	w.watch, w.onFrame = by, by.Frame
	w.onToken = func(at clock.Instant, tokens int) {
		record(at, tokens)
		by.Token()
	}
}
