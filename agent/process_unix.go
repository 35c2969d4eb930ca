//go:build unix

package agent

import (
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// raiseFileLimit raises the soft limit of open files to the hard limit: each stream needs a file.
func raiseFileLimit() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	if limit.Cur >= limit.Max {
		return nil
	}
	from := limit.Cur
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files cannot be raised from %d to %d: %w", from, limit.Max, err)
	}
	return nil
}

// countFiles reads the limit of open files, and the number of open files where the system lists them.
func countFiles() files {
	f := files{limit: math.MaxInt}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil && limit.Cur < math.MaxInt {
		f.limit = int(limit.Cur)
	}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		f.open = len(entries)
	}
	return f
}

// cpuTime returns the CPU time of the process on all cores, or 0 if it is not known.
func cpuTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
