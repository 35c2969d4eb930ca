package live

import (
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/clock"
)

// Lag measures how far a coordinator lags behind its runs: how many windows were merged and published, and how long
// after its end the last window was published. The zero value is ready to use. It is safe for concurrent use.
type Lag struct {
	windows atomic.Uint64
	delay   atomic.Int64
}

// count counts a window that has just been published.
func (l *Lag) count(end clock.Instant) {
	l.delay.Store(int64(clock.Now().Sub(end)))
	l.windows.Add(1)
}

// Windows returns how many windows were published.
func (l *Lag) Windows() uint64 { return l.windows.Load() }

// Delay returns how long after its end the last window was published.
func (l *Lag) Delay() time.Duration { return time.Duration(l.delay.Load()) }

// startInstant converts the wall time of a stage's start, from its record, into an instant. It is called when the first
// window is published, so that later steps of the wall clock do not matter.
func startInstant(wall time.Time) clock.Instant { return clock.Now().Add(time.Until(wall)) }
