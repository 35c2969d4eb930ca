package storage

import (
	"testing"
	"time"

	"github.com/spate-load/spate/clock"
)

func TestStalls(t *testing.T) {
	const second = time.Second
	var now clock.Instant
	w := Watch(nil, func() clock.Instant { return now })
	for i, step := range []struct {
		do   func()
		at   time.Duration
		look time.Duration
		want bool
	}{
		{func() {}, 0, 10 * second, false},
		{w.begin, 10 * second, 11 * second, false},
		{w.begin, 10500 * time.Millisecond, 11001 * time.Millisecond, true}, // the first write still waits
		{w.end, 12 * second, 13 * second, false},                            // a write returned
		{func() {}, 0, 13001 * time.Millisecond, true},
		{w.end, 14 * second, 60 * second, false}, // nothing waits
	} {
		now = clock.Instant(step.at)
		step.do()
		now = clock.Instant(step.look)
		if got := w.Stalled(); got != step.want {
			t.Errorf("step %d: stalled %v, want %v", i, got, step.want)
		}
	}
}
