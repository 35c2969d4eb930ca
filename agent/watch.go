package agent

import (
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
)

// Watch sees what one worker's requests receive, in addition to the recorder: calibration compares it with the truth. A
// worker calls it from one goroutine at a time, request after request: Began, then Frame for each event's data, with
// Token after each frame that has token text, then Ended. No method may block, or keep its arguments.
type Watch interface {
	// Began is called when a request starts, with the time at which it was scheduled.
	Began(scheduled, at clock.Instant)
	// Frame gets the data of one event: at is the time of the frame, seen the time at which the program had it.
	Frame(data []byte, at, seen clock.Instant)
	// Token is called if the previous frame had token text.
	Token()
	// Ended gets what became of the request.
	Ended(o *stream.Observation)
}

// attachWatch makes a watch see the worker's requests.
func (w *worker) attachWatch(by Watch) {
	record := w.onToken
	w.watch, w.onFrame = by, by.Frame
	w.onToken = func(at clock.Instant, tokens int) {
		record(at, tokens)
		by.Token()
	}
}
