//go:build !unix

package calibration

import "github.com/spate-load/spate/clock"

// ownUsage is what this process has used so far: it cannot be told here.
func ownUsage() Usage { return Usage{At: clock.Now()} }
