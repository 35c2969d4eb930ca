package kernel

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
)

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
