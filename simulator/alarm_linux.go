package simulator

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/kernel"
)

// alarm wakes one goroutine at an instant, or at once. A timerfd is some 30 us late, while Go's own timers are 500 to
// 1,000 us late.
//
// Its system calls bypass the Go scheduler (see package kernel). With an alarm each 20 ms, going through the scheduler
// cost a fifth of the simulator's CPU time, and caused timer interrupts in the middle of sends.
type alarm struct {
	file *os.File
	fd   int
	raw  syscall.RawConn
	call func(fd uintptr) bool // read, allocated once
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("simulator: cannot create a timer, raise the limit of open files (ulimit -n): %w", err)
	}
	a := &alarm{file: os.NewFile(uintptr(fd), "timerfd"), fd: fd}
	a.call = a.read
	if a.raw, err = a.file.SyscallConn(); err != nil {
		_ = a.file.Close()
		return nil, fmt.Errorf("simulator: cannot access a timer: %w", err)
	}
	return a, nil
}

// set replaces the instant at which wait returns: 1 or any past instant means at once, 0 means never. It may be called
// while another goroutine waits.
func (a *alarm) set(at clock.Instant) {
	if err := kernel.SetTimer(a.fd, at); err != nil {
		panic("simulator: cannot set the timer: " + err.Error())
	}
}

// wait blocks until the instant set last.
func (a *alarm) wait() {
	if err := a.raw.Read(a.call); err != nil {
		panic("simulator: cannot read the timer: " + err.Error())
	}
}

// read returns false before the instant.
func (a *alarm) read(fd uintptr) bool { return kernel.ReadTimer(int(fd)) }

// close frees the timer. The alarm must not be used afterwards.
func (a *alarm) close() { _ = a.file.Close() }
