package stream

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// portAtConnect leaves the choice of a port to connect, which knows where the connection goes: bound before, a port
// would be taken for all endpoints at once. Kernels that cannot do it bind as they always did.
func portAtConnect(c syscall.RawConn) {
	_ = c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	})
}
