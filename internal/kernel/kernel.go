// Package kernel has the system calls of sockets and timers that never block. They bypass Go's scheduler: after a
// system call that the scheduler knows of, its monitor thread wakes every 20 us to see whether the call is still
// running. That costs a short request more than the rest of its work, and causes timer interrupts during others' work.
// Reads also return the kernel's receive timestamps.
//
// How to wait is up to the callers: agent/stream, the timers and the simulator.
package kernel

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"
)

// Memory returns how many bytes of memory this process may take: the smallest of the machine's, the limit of its
// control group and GOMEMLIMIT. 0: not known.
func Memory() (bytes uint64) {
	lower := func(limit uint64) {
		if limit > 0 && (bytes == 0 || limit < bytes) {
			bytes = limit
		}
	}
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		lower(uint64(limit))
	}
	lower(number("/proc/meminfo", "MemTotal: %d kB") << 10)
	lower(number("/sys/fs/cgroup/memory.max", "%d")) // "max" means that there is no limit
	return bytes
}

// number reads the number at the start of a file, 0 if there is none.
func number(path, form string) (n uint64) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscanf(string(text), form, &n); err != nil {
		return 0
	}
	return n
}
