package wire

import (
	"context"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/spate-load/spate/internal/kernel"
)

// ListenTCP listens. With stamped, it first asks for receive stamps: a connection inherits the option before it is
// accepted, so that requests that arrive meanwhile are stamped, too. If the kernel has no stamps, reads lack them, and
// each record says so.
func ListenTCP(addr string, stamped bool) (net.Listener, error) {
	var config net.ListenConfig
	if stamped {
		config.Control = func(_, _ string, c syscall.RawConn) error {
			_ = kernel.AskForStamps(c)
			return nil
		}
	}
	config.SetMultipathTCP(false)
	l, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	kernel.MapStamps()
	return &quietListener{l.(*net.TCPListener), stamped}, nil //nolint:forcetypeassert // it was asked for TCP
}

// quietListener accepts connections that record when their bytes arrived, and whose system calls bypass the Go
// scheduler (see package kernel).
type quietListener struct {
	*net.TCPListener
	stamped bool
}

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
	a := &arrivalConn{TCPConn: c, stamped: l.stamped}
	a.socket.init(raw)
	return a, nil
}

// quietSocket reads and writes a socket as package kernel does, and waits for it with Go's runtime.
type quietSocket struct {
	raw      syscall.RawConn
	receiver kernel.Receiver
	receive  func(fd uintptr) bool // tryRead, allocated once
	in       []byte                // buffer for reading
	n        int
	errn     syscall.Errno

	transmit func(fd uintptr) bool // tryWrite, allocated once
	out      []byte                // bytes to send
	sent     int
	unsent   syscall.Errno
}

// init sets up the socket, which must not be copied afterwards.
func (s *quietSocket) init(raw syscall.RawConn) {
	s.raw, s.receive, s.transmit = raw, s.tryRead, s.tryWrite
}

// read blocks until there are bytes. p must not be empty.
func (s *quietSocket) read(p []byte) (int, stamp, error) {
	s.in = p
	err := s.raw.Read(s.receive)
	s.in = nil
	switch {
	case err != nil:
		return 0, stamp{}, err
	case s.errn != 0:
		return 0, stamp{}, os.NewSyscallError("recvmsg", s.errn)
	case s.n == 0:
		return 0, stamp{}, io.EOF
	}
	if at, _, ok := s.receiver.Times(); ok {
		return s.n, stamp{at: at, by: ArrivalByKernel}, nil
	}
	return s.n, stamp{by: ArrivalByProgram}, nil
}

// tryRead returns false if there is nothing to read yet.
func (s *quietSocket) tryRead(fd uintptr) bool {
	s.n, s.errn = s.receiver.Receive(int(fd), s.in)
	return s.errn != syscall.EAGAIN
}

// write blocks until all of p is sent.
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

// tryWrite returns false if the kernel cannot take more yet.
func (s *quietSocket) tryWrite(fd uintptr) bool {
	s.sent, s.unsent = kernel.Send(int(fd), s.out)
	return s.unsent != syscall.EAGAIN
}
