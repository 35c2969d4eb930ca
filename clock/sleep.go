package clock

import (
	"context"
	"time"
)

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
