package config

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// FaultKind is one way in which a server fails.
type FaultKind string

// The faults. The first three replace the whole response and never reach the engine. The others strike within it. In a
// stream, they strike before the frame with the token after AfterTokens, or before the last frame if the output is
// shorter. In an answer that is not streamed, they strike in the body. The last two change the whole answer and fail
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
	// FaultDrip sends frames in small pieces from there on, with Pause between them
	FaultDrip FaultKind = "drip"
	FaultGzip FaultKind = "gzip" // the answer is compressed, whether the client accepts it or not
	// FaultJSONBody answers with one JSON body although a stream was requested; for all requests, see Frames.Deliver
	FaultJSONBody FaultKind = "json-body"
)

var faultKinds = []FaultKind{
	FaultTooManyRequests, FaultServerError, FaultGarbage, FaultGarbageFrame, FaultErrorFrame,
	FaultCut, FaultReset, FaultStall, FaultDrip, FaultGzip, FaultJSONBody,
}

// Fault is a fault and how often it strikes.
type Fault struct {
	// Kind is what happens.
	Kind FaultKind
	// Probability is the chance that the fault strikes a request, from 0 to 1.
	Probability float64
	// Every makes the fault strike the n-th, 2n-th, ... request of each endpoint. Set either Every or Probability.
	Every uint64
	// AfterTokens is the number of tokens sent before the fault.
	AfterTokens int
	// Pause is the silence of a stall (0: until the client leaves or the simulator closes) and the gap between the
	// pieces of a drip.
	Pause time.Duration
}

func (f *Fault) validate() error {
	var errs []error
	if !slices.Contains(faultKinds, f.Kind) {
		errs = append(errs, fmt.Errorf("kind %q is unknown: give one of %q", f.Kind, faultKinds))
	}
	if !(f.Probability >= 0 && f.Probability <= 1) {
		errs = append(errs, fmt.Errorf("probability is %v: give 0 to 1", f.Probability))
	}
	if (f.Probability == 0) == (f.Every == 0) {
		errs = append(errs, fmt.Errorf("probability is %v and every is %d: give exactly one of them",
			f.Probability, f.Every))
	}
	if f.AfterTokens < 0 || f.Pause < 0 {
		errs = append(errs, fmt.Errorf("after %d tokens, pause %v: neither may be negative", f.AfterTokens, f.Pause))
	}
	if f.Kind == FaultDrip && f.Pause == 0 {
		errs = append(errs, errors.New("a drip needs a pause above 0"))
	}
	return errors.Join(errs...)
}
