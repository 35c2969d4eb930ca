package engine

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// group returns what puts a command into a group of its own, which dies with its guard.
func group() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adopt makes this process the parent of what its children leave behind. What this thread starts has no real-time
// priority, which is for those that measure an engine.
func adopt() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // an old kernel has no such thing
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}, 0)
}

// killOrphans kills what the command has left behind, until nothing of it is left, or for some ten seconds.
func killOrphans() {
	const tries = 10_000
	for range tries {
		stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
		for _, path := range stats {
			text, _ := os.ReadFile(path) // it may have ended
			fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && len(fields) > 1 &&
				fields[1] == strconv.Itoa(os.Getpid()) {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
		if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil {
			return // there are no children
		}
		time.Sleep(time.Millisecond)
	}
}
