package netlab

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// onThread runs a function in a goroutine with a system thread of its own, which ends with it: a thread that has
// changed its namespace must not run anything else. It is never the process's first thread, whose end Go puts off to
// that of the process.
func onThread(run func()) {
	locked := make(chan struct{})
	go func() {
		runtime.LockOSThread() // and never unlocked, so that the thread ends
		if unix.Gettid() != unix.Getpid() {
			close(locked)
			run()
			return
		}
		onThread(run) // while this one holds the first thread
		runtime.UnlockOSThread()
		close(locked)
	}()
	<-locked
}

// namespace is a network namespace of this process's making. It lives as long as it is open, or a process is in it.
type namespace struct{ file *os.File }

// newNamespace makes an empty namespace and runs prepare in it.
func newNamespace(prepare func() error) (*namespace, error) {
	type result struct {
		ns  *namespace
		err error
	}
	made := make(chan result, 1)
	onThread(func() {
		ns, err := unshare()
		if err == nil {
			err = prepare()
		}
		made <- result{ns, err}
	})
	r := <-made
	if r.err != nil && r.ns != nil {
		r.ns.file.Close()
	}
	return r.ns, r.err
}

// unshare moves the calling thread into a new namespace.
func unshare() (*namespace, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("new network namespace: %w", err)
	}
	file, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", unix.Gettid()))
	if err != nil {
		return nil, fmt.Errorf("new network namespace: %w", err)
	}
	return &namespace{file}, nil
}

// enter moves the calling thread into the namespace.
func (n *namespace) enter() error {
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	return nil
}

// do runs a function in the namespace, in a thread of its own, and waits for it.
func (n *namespace) do(run func() error) error {
	done := make(chan error, 1)
	onThread(func() {
		err := n.enter()
		if err == nil {
			err = run()
		}
		done <- err
	})
	return <-done
}

// Skew makes processes that the calling thread starts see the clocks since boot (CLOCK_MONOTONIC, CLOCK_BOOTTIME) by
// offset ahead. The caller has locked its goroutine to the thread and never unlocks it. It is for processes outside of
// a lab, too.
func Skew(offset time.Duration) error {
	if err := unix.Unshare(unix.CLONE_NEWTIME); err != nil {
		return fmt.Errorf("new time namespace: %w", err)
	}
	seconds := int64(offset / time.Second)
	if offset%time.Second < 0 {
		seconds-- // the kernel wants nanoseconds of 0 and more
	}
	nanoseconds := int64(offset) - seconds*int64(time.Second)
	text := fmt.Sprintf("monotonic %d %d\nboottime %d %d\n", seconds, nanoseconds, seconds, nanoseconds)
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/timens_offsets", unix.Gettid()), []byte(text), 0); err != nil {
		return fmt.Errorf("offsets of a time namespace: %w", err)
	}
	return nil
}
