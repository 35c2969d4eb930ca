package kernel

import (
	"cmp"
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
)

// Receiver reads sockets by recvmsg. It holds what a read needs, so that reads do not allocate. The zero value is ready
// to use. One goroutine at a time may use a Receiver, and it must not be copied.
type Receiver struct {
	message unix.Msghdr // points to the fields below
	vector  unix.Iovec
	control struct { // room for one timestamp; the socket asks for nothing else
		head unix.Cmsghdr
		time unix.Timespec
	}
}

// Receive reads what a socket has into p, which has room for at least one byte. 0 bytes: the other side has closed.
// EAGAIN: there is nothing yet.
func (r *Receiver) Receive(fd int, p []byte) (int, syscall.Errno) {
	r.message.Iov, r.message.Control = &r.vector, (*byte)(unsafe.Pointer(&r.control))
	r.message.SetIovlen(1)
	r.vector.Base = &p[0]
	r.vector.SetLen(len(p))
	for {
		r.message.SetControllen(int(unsafe.Sizeof(r.control)))
		n, _, err := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.message)),
			unix.MSG_DONTWAIT)
		if err == unix.EINTR {
			continue
		}
		r.vector.Base = nil
		if err != 0 {
			return 0, err
		}
		return int(n), 0
	}
}

// Times returns when the last byte of the last read reached this machine, when the program had it, and whether the
// first of these times is the kernel's. Without a timestamp, or with one that a step of the wall clock made ambiguous,
// both times are the program's.
func (r *Receiver) Times() (at, seen clock.Instant, stamped bool) {
	if int(r.message.Controllen) < int(unsafe.Sizeof(r.control)) || r.control.head.Level != unix.SOL_SOCKET ||
		r.control.head.Type != unix.SCM_TIMESTAMPNS {
		now := clock.Now()
		return now, now, false
	}
	return wall().Instant(r.control.time.Nano())
}

// Send writes p, at least one byte, to a socket and returns how many bytes it took. EAGAIN: it takes none yet.
func Send(fd int, p []byte) (int, syscall.Errno) {
	if raceDetector {
		return sendKnown(fd, p)
	}
	for {
		n, _, err := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch err {
		case 0:
			return int(n), 0
		case unix.EINTR:
		default:
			return 0, err
		}
	}
}

// sendKnown is Send by the standard library, which the race detector sees.
func sendKnown(fd int, p []byte) (int, syscall.Errno) {
	n, err := syscall.Write(fd, p)
	if err != nil {
		errno, _ := err.(syscall.Errno) //nolint:errorlint // system calls return nothing else
		return 0, errno
	}
	return n, 0
}

// Peek checks whether a socket has anything to read, without reading it. EAGAIN: nothing. 0: bytes, or the other side
// has closed.
func Peek(fd int) syscall.Errno {
	var b byte
	_, _, err := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b)), 1,
		unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	return err
}

// AskForStamps makes the kernel timestamp what a socket receives. Called before a socket connects or listens, it covers
// the first byte, and also connections that the socket accepts later.
func AskForStamps(c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	if err = cmp.Or(err, failed); err != nil {
		return fmt.Errorf("enable receive timestamps: %w", err)
	}
	return nil
}

// HoldStamping keeps timestamping enabled in the kernel. The kernel enables it with a delay after the first socket asks
// for it, and disables it with the last such socket. One socket that stays open for the life of the process spares all
// others that delay. Without it some reads lack a timestamp, and those are counted, so HoldStamping returns no error.
var HoldStamping = sync.OnceFunc(func() {
	if fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}
	MapStamps()
})

// wall maps timestamps to instants. All sockets share it, so that a clock step seen by one is known to all.
var wall = sync.OnceValue(clock.NewWall)

// MapStamps starts the mapping of timestamps to instants. Timestamps taken earlier cannot be mapped.
func MapStamps() { wall() }
