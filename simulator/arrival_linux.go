package simulator

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
)

// wall maps stamps to instants.
var wall = sync.OnceValue(clock.NewWall)

// listenTCP listens. Stamped, it asks for receive stamps before that: a connection inherits it before it is accepted, so that requests that
// come meanwhile are stamped, too. Where the kernel has none, reads lack stamps, which is said in each record.
func listenTCP(addr string, stamped bool) (net.Listener, error) {
	var config net.ListenConfig
	if stamped {
		config.Control = func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
		}
	}
	config.SetMultipathTCP(false)
	l, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	wall()
	return &quietListener{l.(*net.TCPListener)}, nil //nolint:forcetypeassert // it was asked for TCP
}

// quietListener accepts connections that know when their bytes came, and whose system calls do not wake the scheduler's watchman (see alarm).
type quietListener struct{ *net.TCPListener }

// Accept implements net.Listener.
func (l *quietListener) Accept() (net.Conn, error) {
	c, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return c, nil //nolint:nilerr // it serves without stamps
	}
	a := &arrivalConn{TCPConn: c}
	a.socket.init(raw)
	return a, nil
}

// quietSocket reads a socket by recvmsg, which brings the receive stamp along, and writes it. Its system calls return at once whatever there is,
// so that the scheduler need not hear of them.
type quietSocket struct {
	raw     syscall.RawConn
	receive func(fd uintptr) bool // recvmsg, made once
	message unix.Msghdr           // points to what follows
	vector  unix.Iovec
	control [32]byte // room for a stamp and its header
	n       int
	errn    syscall.Errno

	transmit func(fd uintptr) bool // send, made once
	out      []byte
	sent     int
	unsent   syscall.Errno
}

// init makes what all calls have in common. The socket must not be copied any more.
func (s *quietSocket) init(raw syscall.RawConn) {
	s.raw, s.receive, s.transmit = raw, s.recvmsg, s.send
	s.message.Iov, s.message.Control = &s.vector, &s.control[0]
	s.message.SetIovlen(1)
}

// read waits for bytes, of which p has room for one at least.
func (s *quietSocket) read(p []byte) (int, stamp, error) {
	s.vector.Base = &p[0]
	s.vector.SetLen(len(p))
	err := s.raw.Read(s.receive)
	s.vector.Base = nil
	switch {
	case err != nil:
		return 0, stamp{}, err
	case s.errn != 0:
		return 0, stamp{}, os.NewSyscallError("recvmsg", s.errn)
	case s.n == 0:
		return 0, stamp{}, io.EOF
	}
	return s.n, stampIn(s.control[:s.message.Controllen]), nil
}

// recvmsg tries once. It is false if there is nothing to read yet.
func (s *quietSocket) recvmsg(fd uintptr) bool {
	for {
		s.message.SetControllen(len(s.control))
		n, _, errn := unix.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&s.message)), unix.MSG_DONTWAIT)
		switch errn {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		}
		s.n, s.errn = int(n), errn
		return true
	}
}

// write waits until all of p is sent.
func (s *quietSocket) write(p []byte) (n int, err error) {
	defer func() { s.out = nil }()
	for n < len(p) {
		s.out = p[n:]
		if err := s.raw.Write(s.transmit); err != nil {
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
func (s *quietSocket) send(fd uintptr) bool {
	for {
		n, _, errn := unix.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&s.out[0])), uintptr(len(s.out)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch errn {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		}
		s.sent, s.unsent = int(n), errn
		return true
	}
}

// stampIn finds the receive stamp among control messages.
func stampIn(control []byte) stamp {
	for len(control) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			break
		}
		if header.Level == unix.SOL_SOCKET && header.Type == unix.SCM_TIMESTAMPNS && len(data) == 16 {
			ns := int64(binary.NativeEndian.Uint64(data))*1e9 + int64(binary.NativeEndian.Uint64(data[8:]))
			if at, _, ok := wall().Instant(ns); ok {
				return stamp{at: at, by: ArrivalByKernel}
			}
		}
		control = rest
	}
	return stamp{by: ArrivalByProgram}
}
