package engine

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// An engine does not have the real-time priority of the program that measures it.
func TestEngineHasNoRealtimePriority(t *testing.T) {
	runtime.LockOSThread() // the thread ends with the test
	set := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	if err := unix.SchedSetAttr(0, set, 0); err != nil {
		t.Skipf("NOT TESTED: this user may not use real-time scheduling: %v", err)
	}
	log := filepath.Join(t.TempDir(), "log")
	e, err := Start(Guarded(own(t), time.Second), []string{own(t), "engine", "plain"}, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Stop()
	got, err := unix.SchedGetAttr(pids(t, log, 1)[0], 0)
	if err != nil || got.Policy != unix.SCHED_NORMAL {
		t.Errorf("policy %+v, %v", got, err)
	}
}
