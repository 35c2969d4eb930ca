//go:build unix

package access

import (
	"math"

	"golang.org/x/sys/unix"
)

// openFiles returns how many files this process may open, 0 if there is no limit. Go has raised the soft limit to the
// hard one.
func openFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}
