//go:build unix

package agent

import (
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// raiseFileLimit lifts the soft limit of open files to the hard one: a stream needs a file each.
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

// countFiles reads the limit, and the open files where the system lists them.
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

// cpuTime is what the process has used of all cores so far, 0 if that cannot be told.
func cpuTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
