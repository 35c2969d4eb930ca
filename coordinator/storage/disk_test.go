package storage

import (
	"testing"
	"time"

	"github.com/spate-load/spate/clock"
)

func TestStalls(t *testing.T) {
	const second = time.Second
	var s stalls
	for i, step := range []struct {
		do   func(clock.Instant)
		at   time.Duration
		look time.Duration
		want bool
	}{
		{func(clock.Instant) {}, 0, 10 * second, false},
		{s.begin, 10 * second, 11 * second, false},
		{s.begin, 10500 * time.Millisecond, 11001 * time.Millisecond, true}, // the first write still waits
		{s.end, 12 * second, 13 * second, false},                            // a write returned
		{func(clock.Instant) {}, 0, 13001 * time.Millisecond, true},
		{s.end, 14 * second, 60 * second, false}, // nothing waits
	} {
		step.do(clock.Instant(step.at))
		if got := s.stalled(clock.Instant(step.look)); got != step.want {
			t.Errorf("step %d: stalled %v, want %v", i, got, step.want)
		}
	}
}
