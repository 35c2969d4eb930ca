package coordinator

import (
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/clock"
)

// shown says how far behind its runs a coordinator is: how many windows were merged and handed on, and how long after
// its end the last of them was. It is safe for concurrent use.
type shown struct {
	windows atomic.Uint64
	delay   atomic.Int64
}

// window counts a window that has just been handed on.
func (s *shown) window(end clock.Instant) {
	s.delay.Store(int64(clock.Now().Sub(end)))
	s.windows.Add(1)
}

// startInstant turns the wall time of a stage's start, which its record has, into an instant. It is asked when the
// first window is handed on: a clock that steps later changes nothing.
func startInstant(wall time.Time) clock.Instant { return clock.Now().Add(time.Until(wall)) }
