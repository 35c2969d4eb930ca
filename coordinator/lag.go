package coordinator

import (
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/clock"
)

// lag measures how far a coordinator lags behind its runs: how many windows were merged and published, and how long
// after its end the last window was published. It is safe for concurrent use.
type lag struct {
	windows atomic.Uint64
	delay   atomic.Int64
}

// window counts a window that has just been published.
func (s *lag) window(end clock.Instant) {
	s.delay.Store(int64(clock.Now().Sub(end)))
	s.windows.Add(1)
}

// startInstant converts the wall time of a stage's start, from its record, into an instant. It is called when the first
// window is published, so that later steps of the wall clock do not matter.
func startInstant(wall time.Time) clock.Instant { return clock.Now().Add(time.Until(wall)) }
