package recorder

import (
	"time"

	"github.com/spate-load/spate/clock"
)

// Length is the length of a window.
const Length = time.Second

// Grace is how long a window stays open after its end for events that are recorded late.
const Grace = 250 * time.Millisecond

// windows maps instants to windows, whole seconds since the stage's start.
type windows struct{ start clock.Instant }

// of returns the window of an instant. Instants before the start belong to the first window.
func (w windows) of(at clock.Instant) uint32 {
	return uint32(max(at.Sub(w.start), 0) / Length)
}

// sealable returns the instant from which window i may be sealed.
func (w windows) sealable(i uint32) clock.Instant {
	return w.start.Add(time.Duration(i+1)*Length + Grace)
}
