package yielding

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Conn makes a connection yield if it is a connection of the kernel. Other connections are returned unchanged.
func Conn(of net.Conn) net.Conn {
	s, ok := of.(syscall.Conn)
	if !ok {
		return of
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return of
	}
	return &conn{Conn: of, look: func() (state, bool) { return look(raw) }, window: window{bytes: chunkBytes}}
}

// look reads the state of a connection from the kernel.
func look(raw syscall.RawConn) (s state, known bool) {
	err := raw.Control(func(fd uintptr) {
		unacked, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		if err != nil {
			return
		}
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return
		}
		s, known = state{unacked, time.Duration(info.Rtt) * time.Microsecond,
			time.Duration(info.Min_rtt) * time.Microsecond}, true
	})
	return s, known && err == nil
}
