//go:build !linux

package calibration

import "runtime"

// usableCores are not known here.
func usableCores() []int { return nil }

// onCores calls start: processes cannot be bound to cores here.
func onCores(_ []int, start func() error) error { return start() }

// countCores is how many cores this process may use.
func countCores() int { return runtime.NumCPU() }

// machineCPU cannot be told here.
func machineCPU() (Usage, bool) { return Usage{}, false }
