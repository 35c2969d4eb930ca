//go:build !unix

package ready

import "math"

// RaiseFileLimit does nothing on this system.
func RaiseFileLimit() error { return nil }

// CountFiles reports no limit: this system has none that counts here.
func CountFiles() files { return files{limit: math.MaxInt} }
