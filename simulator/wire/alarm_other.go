//go:build !linux

package wire

import (
	"time"

	"github.com/spate-load/spate/clock"
)

// Alarm wakes one goroutine at an instant, or at once. Go's timers are up to a millisecond late.
type Alarm struct {
	timer *time.Timer
}

// NewAlarm returns an alarm that is not set.
func NewAlarm() (*Alarm, error) {
	t := time.NewTimer(0)
	t.Stop()
	return &Alarm{timer: t}, nil
}

// Set replaces the instant at which Wait returns: any past instant means at once, 0 means never. It may be called while
// another goroutine waits.
func (a *Alarm) Set(at clock.Instant) {
	if at == 0 {
		a.timer.Stop()
		return
	}
	a.timer.Reset(max(0, clock.Until(at)))
}

// Wait blocks until the instant set last.
func (a *Alarm) Wait() { <-a.timer.C }

// Close frees the timer. The alarm must not be used afterwards.
func (a *Alarm) Close() { a.timer.Stop() }
