// Package memory has the garbage collector come less often than Go's default of once for each doubling of the heap. An
// agent's heap is small and its requests make garbage fast, so that by default it would collect many times a second; on
// a core that is busy each collection delays what is due by milliseconds. It does nothing else. The commands that run
// agents call it, once.
package memory

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// least is how much garbage there is, at least, before it is collected: on one core that starts 10,000 requests a
// second, once in five seconds or so. Each time takes milliseconds of what is due then. Of a large heap it is a quarter
// of the heap: the collector's work is by what lives, and 20,000 streams ought not to take twice their memory.
const least = 256 << 20

// CollectLess sets the collector's pace by what lives, now and after each collection. A GOGC of the environment's goes
// before it, and a GOMEMLIMIT holds as ever. It may be called again, to no effect.
func CollectLess() {
	if os.Getenv("GOGC") != "" || begun {
		return
	}
	begun = true
	set(live())
	watch()
}

// begun says that the pace is being set. Commands call CollectLess before anything else runs.
var begun bool

// cycle is garbage as soon as it is made: its end tells that of a collection.
type cycle struct {
	_ *int // what has no pointer may share its memory with others
}

// watch sets the pace after the next collection, and so on.
func watch() {
	runtime.SetFinalizer(new(cycle), func(*cycle) {
		set(live())
		watch()
	})
}

// set makes the collector wait for the garbage that a heap of so many bytes may have.
func set(live uint64) {
	if percent := percentOf(live); percent != pace {
		pace = percent
		debug.SetGCPercent(percent)
	}
}

// pace is the percentage that is set.
var pace int

// percentOf is the garbage that a heap may have, in hundredths of what lives there. Whole tens are enough, and change
// less often; below the 4 MiB that Go's own least heap is made of, there is no more.
func percentOf(live uint64) int {
	live = max(live, 4<<20)
	return max(int(least*100/live)/10*10, 25)
}

// live is what the last collection left.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
