//go:build unix

package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the CPU time that this process has used so far on all cores, or 0 if it is not known.
func CPU() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
