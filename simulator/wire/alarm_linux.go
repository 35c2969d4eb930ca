package wire

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/kernel"
)

// Alarm wakes one goroutine at an instant, or at once. A timerfd is some 30 us late, while Go's own timers are 500 to
// 1,000 us late.
//
// Its system calls bypass the Go scheduler (see package kernel). With an alarm each 20 ms, going through the scheduler
// cost a fifth of the simulator's CPU time, and caused timer interrupts in the middle of sends.
type Alarm struct {
	file *os.File
	fd   int
	raw  syscall.RawConn
	call func(fd uintptr) bool // read, allocated once
}

// NewAlarm returns an alarm that is not set. The caller closes it. It returns an error if the system has no timer left.
func NewAlarm() (*Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("simulator: cannot create a timer, raise the limit of open files (ulimit -n): %w", err)
	}
	a := &Alarm{file: os.NewFile(uintptr(fd), "timerfd"), fd: fd}
	a.call = a.read
	if a.raw, err = a.file.SyscallConn(); err != nil {
		_ = a.file.Close()
		return nil, fmt.Errorf("simulator: cannot access a timer: %w", err)
	}
	return a, nil
}

// Set replaces the instant at which Wait returns: 1 or any past instant means at once, 0 means never. It may be called
// while another goroutine waits.
func (a *Alarm) Set(at clock.Instant) {
	if err := kernel.SetTimer(a.fd, at); err != nil {
		panic("simulator: cannot set the timer: " + err.Error())
	}
}

// Wait blocks until the instant set last.
func (a *Alarm) Wait() {
	if err := a.raw.Read(a.call); err != nil {
		panic("simulator: cannot read the timer: " + err.Error())
	}
}

// read returns false before the instant.
func (a *Alarm) read(fd uintptr) bool { return kernel.ReadTimer(int(fd)) }

// Close frees the timer. The alarm must not be used afterwards.
func (a *Alarm) Close() { _ = a.file.Close() }
