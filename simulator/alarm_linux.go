package simulator

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
)

// alarm wakes one goroutine at an instant or at once. A timerfd is some 30 us late where Go's own timers are 500 to 1,000.
//
// Its system calls return at once, and the scheduler does not hear of them: hearing of one while all rest, it lets its watchman look every 20 us
// for a millisecond and more. With an alarm each 20 ms that was a fifth of the simulator's CPU time, and timer interrupts in the midst of sends.
type alarm struct {
	file        *os.File
	fd          uintptr
	raw         syscall.RawConn
	call        func(fd uintptr) bool // read, made once
	spec        unix.ItimerSpec       // guarded by who calls set
	expirations [8]byte
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("simulator: cannot create a timer, raise the limit of open files (ulimit -n): %w", err)
	}
	a := &alarm{file: os.NewFile(uintptr(fd), "timerfd"), fd: uintptr(fd)}
	a.call = a.read
	if a.raw, err = a.file.SyscallConn(); err != nil {
		_ = a.file.Close()
		return nil, fmt.Errorf("simulator: get at a timer: %w", err)
	}
	return a, nil
}

// set replaces the instant at which wait returns: 1 or any that has passed is at once, 0 never. It may be called while another
// goroutine waits, and by one at a time.
func (a *alarm) set(at clock.Instant) {
	a.spec.Value = unix.NsecToTimespec(int64(at))
	_, _, errn := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, a.fd, unix.TFD_TIMER_ABSTIME, uintptr(unsafe.Pointer(&a.spec)), 0, 0, 0)
	if errn != 0 {
		panic("simulator: a timer of our own cannot be set: " + errn.Error())
	}
}

// wait blocks until the instant that was set last.
func (a *alarm) wait() {
	if err := a.raw.Read(a.call); err != nil {
		panic("simulator: a timer of our own cannot be read: " + err.Error())
	}
}

// read is false before the instant.
func (a *alarm) read(fd uintptr) bool {
	for {
		_, _, errn := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&a.expirations)), uintptr(len(a.expirations)))
		if errn != unix.EINTR {
			return errn != unix.EAGAIN
		}
	}
}

// close frees the timer. Nobody may wait or set it any more.
func (a *alarm) close() { _ = a.file.Close() }
