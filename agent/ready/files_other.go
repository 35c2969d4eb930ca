//go:build !unix

package ready

import "math"

// RaiseFileLimit does nothing on this system.
func RaiseFileLimit() error { return nil }

// countFiles reports no limit: this system has none that counts here.
func countFiles() files { return files{limit: math.MaxInt} }
