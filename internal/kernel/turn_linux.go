package kernel

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// turn lets all other goroutines run first. runtime.Gosched does less: while any goroutine is runnable, the runtime
// does not ask the kernel which others are, and a goroutine that keeps yielding is always runnable. A goroutine that
// waits for an eventfd is not. It writes to the eventfd as it starts to wait. When the runtime has nothing else to run
// and asks the kernel, it learns of that write along with everything that came from the network.
type turn struct {
	file     *os.File
	raw      syscall.RawConn
	written  bool                  // write has been called
	tryWrite func(fd uintptr) bool // the write method, bound once
}

func newTurn() (*turn, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	t := &turn{file: os.NewFile(uintptr(fd), "eventfd")}
	t.tryWrite = t.write
	if t.raw, err = t.file.SyscallConn(); err != nil {
		return nil, errors.Join(fmt.Errorf("eventfd: %w", err), t.file.Close())
	}
	return t, nil
}

// wait returns when it is this goroutine's turn, or when a deadline in the past is set.
func (t *turn) wait() error {
	t.written = false
	err := t.raw.Read(t.tryWrite)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = t.file.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	return nil
}

// write makes the file readable, which the poller reports each time, and returns false until it has been reported.
// It is never read: at one per write, the counter takes centuries to fill.
func (t *turn) write(fd uintptr) bool {
	if t.written {
		return true
	}
	t.written = true
	one := uint64(1)
	_, _, err := unix.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
	return err != 0 // the write failed, so nothing would be reported
}
