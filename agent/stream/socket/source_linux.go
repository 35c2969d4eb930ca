package socket

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// portAtConnect defers the choice of a local port from bind to connect, when the kernel knows the remote address. A
// port chosen at bind would be taken for all endpoints at once. Kernels without this option choose at bind.
func portAtConnect(c syscall.RawConn) {
	_ = c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	})
}
