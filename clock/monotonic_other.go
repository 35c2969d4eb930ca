//go:build !linux

package clock

import "time"

// monotonic returns the wall time: these systems have no monotonic clock that all processes share. It is read only at
// the start of the process.
func monotonic() Instant { return Instant(time.Now().UnixNano()) }
