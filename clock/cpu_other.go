//go:build !unix

package clock

import "time"

// CPU returns 0: the CPU time is not known on this system.
func CPU() time.Duration { return 0 }
