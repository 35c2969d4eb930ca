// Package clock is the one time line that durations are measured on, and the estimate of another machine's line.
//
// An Instant is the machine's CLOCK_MONOTONIC: it never steps, and it is the same for all processes of a machine, so
// that a simulator's truth can be compared with a client's stamps. Wall clocks are for labels only and never enter a
// duration.
package clock

import (
	"time"
)

// Instant is a time on this machine's monotonic clock, in nanoseconds. Zero means "not known".
type Instant int64

// epoch ties Go's own monotonic readings, which have no public origin, to CLOCK_MONOTONIC.
var epochTime, epochInstant = tie()

// tie reads both lines as close together as it can: a preemption between the two readings would shift this process
// against all others of the machine for good, so the tightest of many pairs is taken.
func tie() (time.Time, Instant) {
	var at time.Time
	var instant Instant
	tightest := time.Duration(1<<63 - 1)
	for range 64 {
		before := monotonic()
		now := time.Now()
		width := monotonic().Sub(before)
		if width < tightest {
			at, instant, tightest = now, before+Instant(width/2), width
		}
	}
	return at, instant
}

// Now returns the current instant. It costs one vDSO call.
func Now() Instant {
	return epochInstant + Instant(time.Since(epochTime))
}

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Until returns the time from now to i, negative if i has passed.
func Until(i Instant) time.Duration { return i.Sub(Now()) }
