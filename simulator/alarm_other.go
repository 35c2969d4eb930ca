//go:build !linux

package simulator

import (
	"time"

	"github.com/spate-load/spate/clock"
)

// alarm wakes one goroutine at an instant, or at once. Go's timers are up to a millisecond late.
type alarm struct {
	timer *time.Timer
}

func newAlarm() (*alarm, error) {
	t := time.NewTimer(0)
	t.Stop()
	return &alarm{timer: t}, nil
}

// set replaces the instant at which wait returns: any past instant means at once, 0 means never. It may be called while
// another goroutine waits.
func (a *alarm) set(at clock.Instant) {
	if at == 0 {
		a.timer.Stop()
		return
	}
	a.timer.Reset(max(0, clock.Until(at)))
}

// wait blocks until the instant set last.
func (a *alarm) wait() { <-a.timer.C }

// close frees the timer. The alarm must not be used afterwards.
func (a *alarm) close() { a.timer.Stop() }
