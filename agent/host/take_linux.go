package host

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// priority is the lowest of SCHED_RR: ahead of ordinary work, behind real-time tasks that somebody set up on purpose.
const priority = 1

// apply changes threads until a pass finds none to change: a thread may be created during a pass by a thread that is
// not changed yet.
func apply() error {
	for {
		if changed, err := applyToThreads(); err != nil || changed == 0 {
			return err
		}
	}
}

// applyToThreads changes all current threads that need it, and returns how many it changed.
func applyToThreads() (changed int, err error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0, fmt.Errorf("list threads: %w", err)
	}
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name()) // the kernel's names are numbers
		did, err := applyToThread(id)
		if err != nil {
			return 0, err
		}
		if did {
			changed++
		}
	}
	return changed, nil
}

// applyToThread reports whether it changed the thread. It skips threads that have ended or are real-time already.
func applyToThread(id int) (bool, error) {
	now, err := unix.SchedGetAttr(id, 0)
	if err == nil && (now.Policy == unix.SCHED_RR || now.Policy == unix.SCHED_FIFO) {
		return false, nil
	}
	if err == nil {
		err = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR,
			Priority: priority}, 0)
	}
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.ESRCH):
		return false, nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EACCES):
		return false, ErrNotAllowed
	default:
		return false, os.NewSyscallError("sched_setattr", err)
	}
}
