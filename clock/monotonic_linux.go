package clock

import "golang.org/x/sys/unix"

// monotonic reads CLOCK_MONOTONIC. Go's runtime uses the same clock, so the two never drift apart.
func monotonic() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("clock: CLOCK_MONOTONIC cannot be read: " + err.Error())
	}
	return Instant(ts.Nano())
}
