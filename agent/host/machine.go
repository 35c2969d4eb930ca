// Package host sets up the process that an agent runs in, the priority of its threads and the pace of its garbage
// collector, and keeps the load up to which its machine is exact. Commands that run agents call it; the package knows
// no plans and no runs.
package host

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
)

// Machine identifies a machine on which something was measured, and the software.
type Machine struct {
	// ID is the machine ID, if the system has one.
	ID string `json:"id,omitempty"`
	// Host is the machine's host name.
	Host string `json:"host"`
	// Cores is the number of cores that the process could use.
	Cores int `json:"cores"`
	// Kernel is the operating system and its release.
	Kernel string `json:"kernel"`
	// Version is the version of Spate.
	Version string `json:"version"`
}

// ThisMachine describes the machine on which the program is running.
func ThisMachine(version string) Machine {
	host, _ := os.Hostname() // empty: it has none
	system := strings.TrimSpace(runtime.GOOS + " " + firstLine("/proc/sys/kernel/osrelease"))
	return Machine{ID: firstLine("/etc/machine-id"), Host: host, Cores: runtime.NumCPU(), Kernel: system, Version: version}
}

// difference says why a capacity of machine m does not apply to another machine, or returns "". The kernel takes the
// timestamps, and the cores do the work. Another version of Spate is assumed to be as fast.
func (m Machine) difference(here Machine) string {
	switch {
	case m.ID != here.ID:
		return fmt.Sprintf("%s, whose machine ID differs from that of %s", m.Host, here.Host)
	case m.Host != here.Host:
		return fmt.Sprintf("%s, and this is %s", m.Host, here.Host)
	case m.Cores != here.Cores:
		return fmt.Sprintf("%d cores, and this machine has %d", m.Cores, here.Cores)
	case m.Kernel != here.Kernel:
		return fmt.Sprintf("%s, and this machine has %s", m.Kernel, here.Kernel)
	}
	return ""
}

// firstLine returns the first line of a file, or "" if the file cannot be read.
func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// The rest of this file makes the garbage collector run less often than by Go's default, which is once for each
// doubling of the heap. An agent's heap is small and its requests make garbage fast, so by default the collector would
// run many times a second. On a busy core each collection delays what is due by milliseconds. The commands that run
// agents, coordinators, or read runs, call the package once.

// minGarbage is the minimum amount of garbage before a collection: on one core that starts 10,000 requests a second,
// that is a collection every five seconds or so. Each collection delays what is due by milliseconds. For a large heap
// it is a share of the heap. Agents give a quarter: the collector's work depends on live memory, and 20,000 streams
// must not take twice their memory. Coordinators give all of it, as Go does, because agents' snapshots soon add up.
const minGarbage = 256 << 20

// CollectLess sets the collector's pace by the live heap, now and after each collection. A large heap may have
// garbage of that percentage of it. CollectLess does nothing if GOGC is set in the environment. GOMEMLIMIT stays in
// effect. Further calls do nothing.
func CollectLess(percent int) {
	if os.Getenv("GOGC") != "" || leastPercent > 0 {
		return
	}
	leastPercent = percent
	set(live())
	watch()
}

// leastPercent is how much garbage a large heap may have, in percent of it. 0: the pace is not being set. It needs no
// lock: commands call CollectLess before anything else runs.
var leastPercent int

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
	return max(int(minGarbage*100/live)/10*10, leastPercent)
}

// live returns the size of the live heap after the last collection, in bytes.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
