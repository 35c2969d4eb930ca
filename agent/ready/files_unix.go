//go:build unix

package ready

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// RaiseFileLimit raises the soft limit of open files to the hard limit: each stream needs a file.
func RaiseFileLimit() error {
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
