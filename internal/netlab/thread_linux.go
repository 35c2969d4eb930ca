package netlab

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// onThread runs a function in a goroutine with its own system thread. The thread ends with the function, because a
// thread that has changed its namespace must not run anything else. It is never the process's first thread: Go ends
// that one only with the process.
func onThread(run func()) {
	locked := make(chan struct{})
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends
		if unix.Gettid() != unix.Getpid() {
			close(locked)
			run()
			return
		}
		onThread(run) // while this goroutine holds the first thread
		runtime.UnlockOSThread()
		close(locked)
	}()
	<-locked
}

// namespace is a network namespace that this process made. It lives as long as it is open, or a process is in it.
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

// do calls a function in the namespace, in a thread of its own, and waits for it.
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

// Skew moves the clocks since boot (CLOCK_MONOTONIC, CLOCK_BOOTTIME) ahead by offset, for processes that the calling
// thread starts from then on. The caller must have locked its goroutine to the thread and must never unlock it. Skew
// also works for processes outside a lab.
func Skew(offset time.Duration) error {
	if err := unix.Unshare(unix.CLONE_NEWTIME); err != nil {
		return fmt.Errorf("new time namespace: %w", err)
	}
	seconds := int64(offset / time.Second)
	if offset%time.Second < 0 {
		seconds-- // the kernel takes only nanoseconds of 0 and more
	}
	nanoseconds := int64(offset) - seconds*int64(time.Second)
	text := fmt.Sprintf("monotonic %d %d\nboottime %d %d\n", seconds, nanoseconds, seconds, nanoseconds)
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/timens_offsets", unix.Gettid()), []byte(text), 0); err != nil {
		return fmt.Errorf("offsets of a time namespace: %w", err)
	}
	return nil
}
