package simulator

import (
	"context"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/spate-load/spate/internal/kernel"
)

// listenTCP listens. Stamped, it asks for receive stamps before that: a connection inherits it before it is accepted,
// so that requests that come meanwhile are stamped, too. Where the kernel has none, reads lack stamps, which is said in
// each record.
func listenTCP(addr string, stamped bool) (net.Listener, error) {
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
	return &quietListener{l.(*net.TCPListener)}, nil //nolint:forcetypeassert // it was asked for TCP
}

// quietListener accepts connections that know when their bytes came, and whose system calls the scheduler does not hear
// of (see kernel).
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

// quietSocket reads and writes a socket as package kernel does, and waits for it by Go's runtime.
type quietSocket struct {
	raw      syscall.RawConn
	receiver kernel.Receiver
	receive  func(fd uintptr) bool // tryRead, made once
	in       []byte                // room for what is read
	n        int
	errn     syscall.Errno

	transmit func(fd uintptr) bool // tryWrite, made once
	out      []byte                // what is to be sent
	sent     int
	unsent   syscall.Errno
}

// init makes what all calls have in common. The socket must not be copied any more.
func (s *quietSocket) init(raw syscall.RawConn) {
	s.raw, s.receive, s.transmit = raw, s.tryRead, s.tryWrite
}

// read waits for bytes, of which p has room for one at least.
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

// tryRead is false if there is nothing to read yet.
func (s *quietSocket) tryRead(fd uintptr) bool {
	s.n, s.errn = s.receiver.Receive(int(fd), s.in)
	return s.errn != syscall.EAGAIN
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

// tryWrite is false if the kernel takes nothing more yet.
func (s *quietSocket) tryWrite(fd uintptr) bool {
	s.sent, s.unsent = kernel.Send(int(fd), s.out)
	return s.unsent != syscall.EAGAIN
}
