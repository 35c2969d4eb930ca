package config

import "time"

// FaultKind is one way in which a server fails.
type FaultKind string

// The faults. The first three replace the whole response and never reach the engine. The others strike within it. In a
// stream, they strike before the frame with the token after AfterTokens, or before the last frame if the output is
// shorter. In an answer that is not streamed, they strike in the body. The last one changes the whole answer and fails
// nothing.
const (
	FaultTooManyRequests FaultKind = "429"     // 429 with an error object and Retry-After
	FaultServerError     FaultKind = "500"     // 500 with an error object
	FaultGarbage         FaultKind = "garbage" // 200 with a body that does not belong to any API
	// FaultGarbageFrame is a frame of broken JSON, then the stream ends as if nothing were wrong
	FaultGarbageFrame FaultKind = "garbage-frame"
	FaultErrorFrame   FaultKind = "error-frame" // an error object in the stream after its 200, then the end mark
	// FaultCut closes the connection in order, but before the end of the body
	FaultCut   FaultKind = "cut"
	FaultReset FaultKind = "reset" // the connection is reset (TCP RST)
	// FaultStall is silence for Pause, or until the client leaves; then everything due is sent at once
	FaultStall FaultKind = "stall"
	// FaultJSONBody answers with one JSON body although a stream was requested
	FaultJSONBody FaultKind = "json-body"
)

// Fault is a fault and how often it strikes.
type Fault struct {
	// Kind is what happens.
	Kind FaultKind `words:"429, 500, garbage, garbage-frame, error-frame, cut, reset, stall, json-body"`
	// Probability is the chance that the fault strikes a request, from 0 to 1.
	Probability float64 `most:"1"`
	// AfterTokens is the number of tokens sent before the fault.
	AfterTokens int
	// Pause is the silence of a stall. 0: until the client leaves or the simulator closes.
	Pause time.Duration
}
