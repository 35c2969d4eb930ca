package timer

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// turn lets everybody else run first. runtime.Gosched does less: as long as there is a goroutine to run the runtime
// does not ask the kernel which others could, and one that yields again and again is always there. A goroutine that
// waits for an eventfd is not. It writes to it as it goes to wait, so that the runtime, when it has nothing else left
// to run and asks the kernel, hears of it along with whatever came from the network.
type turn struct {
	file *os.File
	raw  syscall.RawConn
	come bool                  // it has been written to
	ask  func(fd uintptr) bool // bound once
}

func newTurn() (*turn, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	t := &turn{file: os.NewFile(uintptr(fd), "eventfd")}
	t.ask = t.write
	if t.raw, err = t.file.SyscallConn(); err != nil {
		return nil, errors.Join(fmt.Errorf("eventfd: %w", err), t.file.Close())
	}
	return t, nil
}

// wait returns when it is this goroutine's turn, or somebody has set a deadline that is long past.
func (t *turn) wait() error {
	t.come = false
	err := t.raw.Read(t.ask)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = t.file.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	return nil
}

// write makes the file readable anew, which the poller takes for news however often it was so before, and is false
// until it was heard of. Nobody ever reads: by ones its counter is not full within centuries.
func (t *turn) write(fd uintptr) bool {
	if t.come {
		return true
	}
	t.come = true
	one := uint64(1)
	_, _, err := unix.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
	return err != 0 // it would not be heard of
}
