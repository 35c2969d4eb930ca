//go:build unix

package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the CPU time of the process on all cores, or 0 if it is not known.
func cpuTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
