package calibration

import (
	"testing"
	"time"
)

func TestBusy(t *testing.T) {
	for stat, want := range map[string]time.Duration{
		"cpu  100 20 3 50000 600 7 8 9 1000 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n": 1470 * time.Millisecond,
		"cpu 1 0 0 0 0 0 0 0": 10 * time.Millisecond,
	} {
		if got, known := busy(stat); got != want || !known {
			t.Errorf("%q: %v, %v, want %v", stat, got, known, want)
		}
	}
	for _, stat := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 x 4 5 6 7 8"} {
		if got, known := busy(stat); known {
			t.Errorf("%q: %v", stat, got)
		}
	}
}
