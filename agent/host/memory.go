package host

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// This file makes the garbage collector run less often than by Go's default, which is once for each doubling of
// the heap. An agent's heap is small and its requests make garbage fast, so by default the collector would run many
// times a second. On a busy core each collection delays what is due by milliseconds. The commands that run agents call
// the package once.

// minGarbage is the minimum amount of garbage before a collection: on one core that starts 10,000 requests a second,
// that is a collection every five seconds or so. Each collection delays what is due by milliseconds. For a large heap
// the amount is a quarter of the heap: the collector's work depends on live memory, and 20,000 streams must not take
// twice their memory.
const minGarbage = 256 << 20

// CollectLess sets the collector's pace by the live heap, now and after each collection. It does nothing if GOGC is set
// in the environment. GOMEMLIMIT stays in effect. Further calls do nothing.
func CollectLess() {
	if os.Getenv("GOGC") != "" || started {
		return
	}
	started = true
	set(live())
	watch()
}

// started reports whether the pace is being set. It needs no lock: commands call CollectLess before anything else runs.
var started bool

// cycle becomes garbage as soon as it is made, so its finalizer runs after the next collection.
type cycle struct {
	_ *int // an object without pointers might share its memory with others
}

// watch sets the pace after each further collection.
func watch() {
	runtime.SetFinalizer(new(cycle), func(*cycle) {
		set(live())
		watch()
	})
}

// set sets the pace for a live heap of that many bytes.
func set(live uint64) {
	if percent := percentOf(live); percent != currentPercent {
		currentPercent = percent
		debug.SetGCPercent(percent)
	}
}

// currentPercent is the GC percentage that is set.
var currentPercent int

// percentOf returns how much garbage a heap may have, in percent of the live heap. It rounds to tens, which change less
// often. Go's own minimum heap is 4 MiB, so a smaller heap counts as that.
func percentOf(live uint64) int {
	live = max(live, 4<<20)
	return max(int(minGarbage*100/live)/10*10, 25)
}

// live returns the size of the live heap after the last collection, in bytes.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
