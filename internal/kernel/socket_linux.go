package kernel

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
)

// Receiver reads sockets by recvmsg. What a read needs is made once, so that none allocates. The zero value is ready;
// it belongs to one goroutine at a time, and must not be copied.
type Receiver struct {
	message unix.Msghdr // points to what follows
	vector  unix.Iovec
	control [32]byte // room for a stamp and its header, which nothing else was asked for beside
}

// Receive takes what a socket has into p, which has room for at least one byte. 0 bytes: the other side has ended.
// EAGAIN: there is nothing yet.
func (r *Receiver) Receive(fd int, p []byte) (int, syscall.Errno) {
	r.message.Iov, r.message.Control = &r.vector, &r.control[0]
	r.message.SetIovlen(1)
	r.vector.Base = &p[0]
	r.vector.SetLen(len(p))
	for {
		r.message.SetControllen(len(r.control))
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

// Times says of the last read when the last of its bytes reached this machine, when the program had them, and whether
// the first is the kernel's. Without a stamp, or with one that a step of the wall clock left open, both are the
// program's.
func (r *Receiver) Times() (at, seen clock.Instant, stamped bool) {
	stamp := stampIn(r.control[:r.message.Controllen])
	if stamp == 0 {
		now := clock.Now()
		return now, now, false
	}
	return wall().Instant(stamp)
}

// Send gives a socket bytes, at least one, and returns how many it took. EAGAIN: it takes none yet.
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

// sendKnown is Send by the standard library, which tells the race detector.
func sendKnown(fd int, p []byte) (int, syscall.Errno) {
	n, err := syscall.Write(fd, p)
	if err != nil {
		errno, _ := err.(syscall.Errno) //nolint:errorlint // system calls return nothing else
		return 0, errno
	}
	return n, 0
}

// Peek sees whether a socket has anything to read, and leaves it there. EAGAIN: nothing. 0: bytes, or the other side's
// end.
func Peek(fd int) syscall.Errno {
	var b byte
	_, _, err := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b)), 1,
		unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	return err
}
