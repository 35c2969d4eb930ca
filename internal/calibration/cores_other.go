//go:build !linux

package calibration

import "runtime"

// usableCores returns nil: the cores are not known on this system.
func usableCores() []int { return nil }

// onCores only calls start: processes cannot be bound to cores on this system.
func onCores(_ []int, start func() error) error { return start() }

// countCores returns how many cores this process may use.
func countCores() int { return runtime.NumCPU() }

// machineCPU returns false: the usage is not known on this system.
func machineCPU() (Usage, bool) { return Usage{}, false }
