package socket

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

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

// portWindow is the number of local ports among which the kernel looks for a free one.
const portWindow = 64

// window is a part of the kernel's range of local ports. The zero value is all of it.
type window struct{ low, high int }

// windows gives each connection the next window.
type windows struct {
	first, count int // the lowest window's first port, and how many windows there are: one begins at each port
	turn         atomic.Uint32
}

// localPorts are the windows of this process. They begin at random, so that the agents of a machine do not look for the
// same ports.
var localPorts = sync.OnceValue(func() *windows {
	w := &windows{}
	if first, ports := LocalPorts(); ports > portWindow {
		w.first, w.count = first, ports-portWindow+1
	}
	w.turn.Store(rand.Uint32())
	return w
})

func nextWindow() window { return localPorts().next() }

func (w *windows) next() window {
	if w.count == 0 {
		return window{}
	}
	low := w.first + int(w.turn.Add(1)%uint32(w.count))
	return window{low, low + portWindow - 1}
}

// narrow makes the kernel look for a local port in the window. Left alone it starts anywhere in its range, looks at
// every other port first, and at the rest when those are taken: with half of the range in use, each connection costs it
// a look at 14,000 ports, more than a millisecond. Kernels before 6.3 do not have the option, and still do so.
func (w window) narrow(c syscall.RawConn) {
	if w.low == 0 {
		return
	}
	_ = c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_LOCAL_PORT_RANGE, w.high<<16|w.low)
	})
}

// limit is a deadline of a socket. The zero value never passes. Its channel is created when somebody waits for it or
// sets it.
type limit struct {
	mu    sync.Mutex
	at    time.Time     // zero: never passes
	done  chan struct{} // closed when it has passed; nil: not waited for or set yet
	timer *time.Timer
}

// set moves the limit to t; the zero time means no limit. If t is in the past, waiters are woken at once.
func (l *limit) set(t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
	if l.done == nil || l.isOver() {
		l.done = make(chan struct{})
	}
	if l.at = t; t.IsZero() {
		return
	}
	if left := time.Until(t); left > 0 {
		l.timer = time.AfterFunc(left, l.pass)
		return
	}
	close(l.done)
}

// pass wakes waiters, unless the limit was moved after the timer was set.
func (l *limit) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.at.IsZero() && time.Until(l.at) <= 0 && !l.isOver() {
		close(l.done)
	}
}

// over returns os.ErrDeadlineExceeded once the limit has passed.
func (l *limit) over() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil && l.isOver() {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// passed returns a channel that is closed when the limit passes.
func (l *limit) passed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
	}
	return l.done
}

func (l *limit) stop() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

func (l *limit) isOver() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}
