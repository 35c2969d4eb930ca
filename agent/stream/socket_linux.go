package stream

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
)

// stamps reads a socket by recvmsg, which brings the kernel's receive stamp along. What a read needs is made once: with a thousand streams
// it all comes from slow memory, so that each line of it that is touched counts.
type stamps struct {
	raw     syscall.RawConn
	recvmsg func(fd uintptr) bool // bound once, so that a read allocates nothing
	peek    func(fd uintptr)      // likewise
	message unix.Msghdr           // points to what follows
	vector  unix.Iovec
	control [32]byte // room for a stamp and its header, which nothing else was asked for beside
	n       int
	err     syscall.Errno // 0: none
	stamp   int64         // of the last read, on the wall clock; 0: it had none

	sendto func(fd uintptr) bool // bound once, too
	out    []byte                // what is to be sent
	sent   int
	unsent syscall.Errno // 0: none
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

// newSocket takes over a connection that was dialled with askForStamps.
func newSocket(c net.Conn) (*socket, error) {
	s := &socket{Conn: c}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("%T gives no access to its socket", c)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("get at the socket: %w", err)
	}
	s.stamps.raw = raw
	s.stamps.bind()
	s.rtt = roundTrip(raw)
	return s, nil
}

// roundTrip asks the kernel how long the packets of a connection take there and back. Of a connection that was just made that is the
// time from its SYN to the answer. 0: the kernel does not say, which is no reason to do without the connection.
func roundTrip(raw syscall.RawConn) (rtt time.Duration) {
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			rtt = time.Duration(info.Rtt) * time.Microsecond
		}
	})
	return rtt
}

// unread says whether the kernel has bytes that were not read yet.
func (s *stamps) unread() (some bool) {
	_ = s.raw.Control(func(fd uintptr) { // of a closed socket it has none
		n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		some = err == nil && n > 0
	})
	return some
}

// bind makes what all reads have in common. The stamps must not be copied any more.
func (s *stamps) bind() {
	s.recvmsg, s.peek, s.sendto = s.receive, s.look, s.send
	s.message.Iov, s.message.Control = &s.vector, &s.control[0]
	s.message.SetIovlen(1)
}

// read waits for bytes and takes them with their stamp. There is room for at least one in p.
func (s *stamps) read(_ net.Conn, p []byte) (int, error) {
	s.vector.Base = &p[0]
	s.vector.SetLen(len(p))
	err := s.raw.Read(s.recvmsg)
	s.vector.Base = nil
	switch {
	case err != nil:
		return 0, err
	case s.err != 0:
		return 0, os.NewSyscallError("recvmsg", s.err)
	case s.n == 0:
		return 0, io.EOF
	}
	return s.n, nil
}

// receive tries once. It is false if there is nothing to read yet. The call returns at once whatever the socket has, so that the scheduler
// need not hear of it.
func (s *stamps) receive(fd uintptr) bool {
	for {
		s.message.SetControllen(len(s.control))
		n, _, err := unix.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&s.message)), unix.MSG_DONTWAIT)
		switch err {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		case 0:
			s.n, s.err, s.stamp = int(n), 0, stampIn(s.control[:s.message.Controllen])
		default:
			s.n, s.err, s.stamp = 0, err, 0
		}
		return true
	}
}

// write sends all of p. As with reads the calls return at once, so that the scheduler need not hear of them: hearing of system calls it
// lets its watchman look every 20 us whether one lasts, which costs a short request more than all of its making.
func (s *stamps) write(c net.Conn, p []byte) (n int, err error) {
	if raceDetector {
		return c.Write(p)
	}
	defer func() { s.out = nil }()
	for n < len(p) {
		s.out = p[n:]
		if err := s.raw.Write(s.sendto); err != nil {
			return n, err
		}
		if s.unsent != 0 {
			return n, os.NewSyscallError("send", s.unsent)
		}
		n += s.sent
	}
	return n, nil
}

// send tries once. It is false if the kernel takes nothing more yet.
func (s *stamps) send(fd uintptr) bool {
	for {
		n, _, err := unix.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&s.out[0])), uintptr(len(s.out)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch err {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		}
		s.sent, s.unsent = int(n), err
		return true
	}
}

// quiet says whether a connection that lies idle is still open and nothing has come on it, which would be no answer to anything.
func (s *socket) quiet() bool {
	return s.stamps.raw.Control(s.stamps.peek) == nil && s.stamps.err == unix.EAGAIN
}

// look sees in err whether there is anything to read, and leaves it there.
func (s *stamps) look(fd uintptr) {
	_, _, s.err = unix.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&s.control[0])), 1, unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
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

// when returns the time of the last read's bytes, the time at which the program had them, and whether the first is the
// kernel's.
func (s *stamps) when() (at, seen clock.Instant, stamped bool) {
	if s.stamp == 0 {
		now := clock.Now()
		return now, now, false
	}
	return wall().Instant(s.stamp)
}
