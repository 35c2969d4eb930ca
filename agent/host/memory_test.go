package host

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	defer func(before int) { leastPercent = before }(leastPercent)
	leastPercent = 25
	for live, want := range map[uint64]int{
		0:         6400,
		4 << 20:   6400,
		10 << 20:  2560,
		100 << 20: 250,
		128 << 20: 200,
		256 << 20: 100,
		512 << 20: 50,
		4 << 30:   25,
	} {
		if got := percentOf(live); got != want {
			t.Errorf("%d bytes: %d %%, want %d %%", live, got, want)
		}
	}
}

// pacing returns the collector's current GOGC percentage.
func pacing() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// The pace follows the live heap with each collection: down when the heap has grown, and up again when it is small.
func TestPercentFollowsTheHeap(t *testing.T) {
	t.Setenv("GOGC", "") // a GOGC from the environment would take precedence
	CollectLess(25)
	CollectLess(25) // has no effect
	if got := pacing(); got < 1000 {
		t.Fatalf("%d %% with a heap that is all but empty", got)
	}
	follows := func(what string, well func(uint64) bool) {
		t.Helper()
		for begin := time.Now(); !well(pacing()); runtime.GC() {
			if time.Since(begin) > time.Minute {
				t.Fatalf("%s: %d %%", what, pacing())
			}
		}
	}
	heap := make([]byte, 512<<20) // its pages are never touched
	follows("512 MiB live", func(percent uint64) bool { return percent <= 50 })
	runtime.KeepAlive(heap)
	follows("nothing lives", func(percent uint64) bool { return percent >= 1000 })
}
