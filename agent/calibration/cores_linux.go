package calibration

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// usableCores are the cores that this process may run on.
func usableCores() []int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil
	}
	var cores []int
	for i := range 8 * len(set) * 8 {
		if set.IsSet(i) {
			cores = append(cores, i)
		}
	}
	return cores
}

// onCores calls start on a thread that is bound to cores: a process that it starts is bound to them from its first instruction on, with
// all its threads. The thread's own binding is put back. No cores: nothing is bound.
func onCores(cores []int, start func() error) error {
	if len(cores) == 0 {
		return start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, wanted unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	for _, c := range cores {
		wanted.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &wanted); err != nil {
		return err
	}
	defer func() { _ = unix.SchedSetaffinity(0, &before) }() // it was in force a moment ago
	return start()
}

// countCores is how many cores this process may use.
func countCores() int { return max(1, len(usableCores())) }
