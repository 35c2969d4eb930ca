//go:build unix && !linux

package socket

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Quiet reports whether an idle connection is still open and has nothing to read. Bytes on an idle connection would
// answer no request.
func (s *Socket) Quiet() bool {
	raw, err := s.Conn.(syscall.Conn).SyscallConn() //nolint:forcetypeassert // the dialer makes TCP connections only
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		quiet = errors.Is(err, unix.EAGAIN)
	})
	return err == nil && quiet
}
