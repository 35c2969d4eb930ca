package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
)

// timerfd is a kernel timer read as a file, so that the runtime's poller wakes its reader as it does for a socket.
type timerfd struct {
	ctx        context.Context
	fd         int
	file       *os.File
	raw        syscall.RawConn
	tryRead    func(fd uintptr) bool // the read method, bound once
	unregister func() bool           // unregisters from the context
	turn       *turn                 // nil: there are several processors
	passing    atomic.Bool           // the waiting goroutine waits on turn
}

func newPrecise(ctx context.Context) (alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("timerfd_create: %w", err)
	}
	t := &timerfd{ctx: ctx, fd: fd, file: os.NewFile(uintptr(fd), "timerfd")}
	// A file that the poller does not accept cannot be waited on: its reads would fail at once.
	if err := t.file.SetReadDeadline(time.Time{}); err != nil {
		return nil, errors.Join(fmt.Errorf("timerfd: %w", err), t.file.Close())
	}
	if t.raw, err = t.file.SyscallConn(); err != nil {
		return nil, errors.Join(fmt.Errorf("timerfd: %w", err), t.file.Close())
	}
	if runtime.GOMAXPROCS(0) == 1 {
		if t.turn, err = newTurn(); err != nil {
			return nil, errors.Join(err, t.file.Close())
		}
	}
	t.tryRead = t.read
	t.unregister = context.AfterFunc(ctx, t.hasten)
	return t, nil
}

// wait sleeps again if it is woken early: Go's reading of the clock and the kernel's timer may differ by a few
// nanoseconds.
func (t *timerfd) wait(at clock.Instant, woken *atomic.Bool) error {
	for clock.Now() < at && !woken.Load() {
		if err := t.arm(at); err != nil {
			return err
		}
		// This check sees a ring from before the timer was armed; the read sees a later one.
		if woken.Load() {
			return nil
		}
		if err := t.sleep(); err != nil {
			return err
		}
	}
	return nil
}

// sleep waits until the timer can be read, or hasten is called. It returns an error when the context has ended.
func (t *timerfd) sleep() error {
	err := t.raw.Read(t.tryRead)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// The context may have ended just before; this also clears the deadline set for that.
		if err = t.file.SetReadDeadline(time.Time{}); err == nil {
			err = t.ctx.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("timerfd: %w", err)
	}
	return nil
}

// read consumes the expirations, and returns false if there are none yet. It must ask the file itself, because the
// poller forgets events from before a wait.
func (t *timerfd) read(fd uintptr) bool { return ReadTimer(int(fd)) }

// hasten sets a deadline in the past, which makes the reader runnable without asking the poller. If the reader switches
// to the other file meanwhile, it finds the deadline there at its next wait, and waits once more.
func (t *timerfd) hasten() {
	file := t.file
	if t.passing.Load() {
		file = t.turn.file
	}
	_ = file.SetReadDeadline(time.Unix(1, 0))
}

// stretch is how long one of several processors polls the clock before it lets other goroutines run. Each time it does,
// an idle processor may be woken.
const stretch = 20 * time.Microsecond

// pass waits for its turn if there is one processor. If there are several, the others serve the poller.
func (t *timerfd) pass(until clock.Instant) error {
	if t.turn != nil {
		t.passing.Store(true)
		defer t.passing.Store(false)
		return t.turn.wait()
	}
	begun := clock.Now()
	now := begun
	for end := min(until, begun.Add(stretch)); now < end; {
		now = clock.Now()
	}
	if now < until || now == begun {
		runtime.Gosched()
	}
	return nil
}

// arm sets when the timer becomes readable.
func (t *timerfd) arm(at clock.Instant) error { return SetTimer(t.fd, at) }

// ring makes the timer readable at once. It cannot fail if arm has worked before.
func (t *timerfd) ring() { _ = t.arm(1) }

func (t *timerfd) close() error {
	t.unregister()
	if t.turn != nil {
		return errors.Join(t.turn.file.Close(), t.file.Close())
	}
	return t.file.Close()
}

// SetTimer sets the instant from which a timerfd can be read. 1 or any past instant means at once, 0 means never.
func SetTimer(fd int, at clock.Instant) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	_, _, err := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(fd), unix.TFD_TIMER_ABSTIME,
		uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if err != 0 {
		return os.NewSyscallError("timerfd_settime", err)
	}
	return nil
}

// ReadTimer consumes a timerfd's expirations. It returns false if there are none yet.
func ReadTimer(fd int) bool {
	var expirations [8]byte
	for {
		_, _, err := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&expirations)),
			unsafe.Sizeof(expirations))
		if err != unix.EINTR {
			return err != unix.EAGAIN
		}
	}
}
