package stream

import (
	"encoding/binary"
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
)

// receiver reads sockets by recvmsg, which brings the kernel's receive stamp along. What a read needs is made once.
type receiver struct {
	message unix.Msghdr // points to what follows
	vector  unix.Iovec
	control [32]byte // room for a stamp and its header, which nothing else was asked for beside
	own     []byte   // see buffer
}

// receivers are for reads that no sweeper makes.
var receivers = sync.Pool{New: func() any { return newReceiver() }}

func newReceiver() *receiver {
	r := new(receiver)
	r.message.Iov, r.message.Control = &r.vector, &r.control[0]
	r.message.SetIovlen(1)
	return r
}

// leastBuffer is what a reader without a sweeper's buffer reads at once.
const leastBuffer = 4 << 10

// buffer is memory of the receiver's own.
func (r *receiver) buffer() []byte {
	if r.own == nil {
		r.own = make([]byte, leastBuffer)
	}
	return r.own
}

// receive takes what a socket has, at least one byte unless the other side has ended. The call returns at once whatever the socket has, so that
// the scheduler need not hear of it: EAGAIN if there is nothing yet.
func (r *receiver) receive(fd int, p []byte) (int, syscall.Errno) {
	r.vector.Base = &p[0]
	r.vector.SetLen(len(p))
	for {
		r.message.SetControllen(len(r.control))
		n, _, err := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.message)), unix.MSG_DONTWAIT)
		switch err {
		case 0:
			return int(n), 0
		case unix.EINTR:
		default:
			return 0, err
		}
	}
}

// stamp is that of the last read, on the wall clock. 0: it had none.
func (r *receiver) stamp() int64 { return stampIn(r.control[:r.message.Controllen]) }

// send gives a socket bytes and returns how many it took. As with reads the call returns at once, so that the scheduler need not hear of it: hearing
// of system calls it lets its watchman look every 20 us whether one lasts, which costs a short request more than all of its making.
func send(fd int, p []byte) (int, syscall.Errno) {
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

// sendKnown is send by the standard library, which tells the race detector.
func sendKnown(fd int, p []byte) (int, syscall.Errno) {
	n, err := syscall.Write(fd, p)
	if err != nil {
		errno, _ := err.(syscall.Errno) //nolint:errorlint // system calls return nothing else
		return 0, errno
	}
	return n, 0
}

// peek sees whether there is anything to read, and leaves it there: EAGAIN if there is nothing, 0 for bytes or the other side's end.
func peek(fd int) syscall.Errno {
	var b byte
	_, _, err := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b)), 1, unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	return err
}

// wall maps stamps to instants. One for all sockets: a step that one of them notices, all of them know.
var wall = sync.OnceValue(clock.NewWall)

// holdStamping keeps stamping switched on in the kernel. It goes on with the first socket that asks for it, but some time later,
// and off with the last: one socket that stays open for the life of the process spares all others that gap. Without it
// reads lack stamps now and then, which is counted, so a failure here is none of the caller's business.
var holdStamping = sync.OnceFunc(func() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}
	wall()
})

// askForStamps sets the socket option before the socket connects, so that its first byte is stamped.
func askForStamps(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("ask for receive stamps: %w", err)
	}
	return nil
}

// stampIn finds the receive stamp among control messages. 0: there is none.
func stampIn(control []byte) int64 {
	for len(control) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return 0
		}
		if header.Level == unix.SOL_SOCKET && header.Type == unix.SCM_TIMESTAMPNS {
			return nanoseconds(data)
		}
		control = rest
	}
	return 0
}

// nanoseconds decodes a struct timespec, which is two longs.
func nanoseconds(timespec []byte) int64 {
	switch len(timespec) {
	case 16:
		return int64(binary.NativeEndian.Uint64(timespec))*1e9 + int64(binary.NativeEndian.Uint64(timespec[8:]))
	case 8:
		return int64(binary.NativeEndian.Uint32(timespec))*1e9 + int64(binary.NativeEndian.Uint32(timespec[4:]))
	}
	return 0
}

// instantOf returns the time of a stamp, the time at which the program had what it is of, and whether the first is the kernel's.
func instantOf(stamp int64) (at, seen clock.Instant, stamped bool) {
	if stamp == 0 {
		now := clock.Now()
		return now, now, false
	}
	return wall().Instant(stamp)
}
