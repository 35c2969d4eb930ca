// Package clock has the clock by which durations are measured, and estimates the offset of another machine's clock.
//
// An Instant is a reading of the machine's CLOCK_MONOTONIC. That clock never steps and is the same for all processes of
// a machine, so a simulator's truth can be compared with a client's timestamps. Wall clocks are only for labels and
// never enter a duration.
package clock

import (
	"context"
	"time"
)

// Instant is a time on this machine's monotonic clock, in nanoseconds. Zero means "not known".
type Instant int64

// epochTime and epochInstant are one moment on Go's monotonic clock, which has no public origin, and on
// CLOCK_MONOTONIC.
var epochTime, epochInstant = tie()

// tie reads both clocks as close together as it can. A preemption between the two readings would shift this process
// against all other processes of the machine for good, so it takes the tightest of many pairs.
func tie() (time.Time, Instant) {
	var at time.Time
	var instant Instant
	tightest := time.Duration(1<<63 - 1)
	for range 64 {
		before := monotonic()
		now := time.Now()
		if width := monotonic().Sub(before); width < tightest {
			at, instant, tightest = now, before+Instant(width/2), width
		}
	}
	return at, instant
}

// Now returns the current instant. It takes one vDSO call.
func Now() Instant { return epochInstant + Instant(time.Since(epochTime)) }

// Add returns the instant d after i.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Until returns the time from now to i, negative if i has passed.
func Until(i Instant) time.Duration { return i.Sub(Now()) }

// Sleep pauses for d or until ctx ends, and reports whether ctx is still alive. It is precise to about a millisecond.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// SleepUntil pauses until an instant or until ctx ends, and reports whether ctx is still alive. It is as precise as
// Sleep.
func SleepUntil(ctx context.Context, until Instant) bool { return Sleep(ctx, Until(until)) }
