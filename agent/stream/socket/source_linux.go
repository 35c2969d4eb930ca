package socket

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
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

// LocalPorts returns the first of the local ports from which the kernel chooses, and their number: that of the
// connections from one address to one endpoint. 0: not known.
func LocalPorts() (first, count int) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, 0
	}
	var last int
	if n, _ := fmt.Sscan(string(text), &first, &last); n < 2 || last < first {
		return 0, 0
	}
	return first, last - first + 1
}

// portWindow is among how many local ports the kernel looks for a free one.
const portWindow = 64

// windows are the places of the next window in the kernel's range of local ports.
type windows struct {
	first, places int // of the lowest window, and how many there are; 0: there is no range, or it is small
	turn          atomic.Uint32
}

// localPorts begins at random, so that the agents of a machine do not look for the same ports.
var localPorts = sync.OnceValue(func() *windows {
	w := &windows{}
	if first, count := LocalPorts(); count > portWindow {
		w.first, w.places = first, count-portWindow+1
	}
	w.turn.Store(rand.Uint32())
	return w
})

// next returns the ends of the next window. 0: the kernel has to look at all of its ports.
func (w *windows) next() (low, high int) {
	if w.places == 0 {
		return 0, 0
	}
	low = w.first + int(w.turn.Add(1)%uint32(w.places))
	return low, low + portWindow - 1
}

// narrowPorts makes the kernel look for a local port among a few, others for each connection. Left alone it starts
// anywhere in its range, looks at every other port first, and at the rest when those are taken: with half of the range
// in use, each connection costs it a look at 14,000 ports, more than a millisecond. Kernels before 6.3 do so.
func narrowPorts(c syscall.RawConn) {
	low, high := localPorts().next()
	if low == 0 {
		return
	}
	_ = c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_LOCAL_PORT_RANGE, high<<16|low)
	})
}
