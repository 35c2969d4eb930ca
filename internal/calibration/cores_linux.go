package calibration

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
)

// usableCores returns the cores on which this process may run.
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

// onCores calls start on a thread that is bound to cores. A process that it starts is bound to them from its first
// instruction, with all its threads. The thread's own binding is restored. No cores: nothing is bound.
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
	defer func() { _ = unix.SchedSetaffinity(0, &before) }() // it was valid a moment ago
	return start()
}

// countCores returns how many cores this process may use.
func countCores() int { return max(1, len(usableCores())) }

// tick is the unit of /proc/stat: 1/100 s on all of Linux's architectures that Go has.
const tick = 10 * time.Millisecond

// machineCPU returns what all programs of this machine have used so far, including what its host took from it. It
// returns false if that is not known.
func machineCPU() (Usage, bool) {
	at := clock.Now()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Usage{}, false
	}
	used, known := busy(string(text))
	return Usage{At: at, CPU: used}, known
}

// busy sums up the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal, except idle and
// iowait. The following fields are guests, which user includes (proc_stat(5)).
func busy(stat string) (time.Duration, bool) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, false
	}
	var used time.Duration
	for i, field := range fields[1:9] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, false
		}
		if i != 3 && i != 4 {
			used += time.Duration(n) * tick
		}
	}
	return used, true
}
