//go:build unix

package calibration

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
)

// ownUsage returns what this process has used so far.
func ownUsage() Usage {
	u := Usage{At: clock.Now()}
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err == nil {
		u.CPU = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return u
}
