package socket

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/kernel"
)

// gate decides when a sweeper wakes up. It is an epoll instance of two files: the epoll instance of the sockets, and a
// timer. Go's poller knows the gate alone.
//
// If frames come one by one, a wake-up costs as much as reading the frame. Times of packets do not depend on when a
// frame is read, so a sweeper that has them naps while many sockets are read often: they do not wake it, and after the
// nap it reads all that came meanwhile.
type gate struct {
	file    *os.File // of fd
	raw     syscall.RawConn
	fd      int
	sockets int // the epoll instance of the sockets
	timer   int // a timerfd that ends naps

	napping bool
	reads   int // sockets read since the last nap or decision
	since   clock.Instant
}

const (
	// nap is by how much the end of an answer may be read late, so that its slot's next request starts late.
	nap = 200 * time.Microsecond
	// napReads is how many sockets must become ready during a nap: 20,000 a second.
	napReads = 4
	// napSockets is how many sockets there must be. Even at 20,000 answers a second, each then takes 12 ms or more.
	napSockets = 256
	// decideAfter is how many sockets are read before the clock tells how long that took.
	decideAfter = 16 * napReads
)

// openGate returns a gate with an epoll instance for sockets.
func openGate() (_ *gate, err error) {
	g := &gate{fd: -1, sockets: -1, timer: -1}
	defer func() {
		if err != nil {
			g.closeFiles()
			unix.Close(g.fd)
		}
	}()
	if g.fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	if g.sockets, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	if g.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return nil, fmt.Errorf("timerfd_create: %w", err)
	}
	err = errors.Join(g.watch(unix.EPOLL_CTL_ADD, g.timer, unix.EPOLLIN),
		g.watch(unix.EPOLL_CTL_ADD, g.sockets, unix.EPOLLIN),
		unix.SetNonblock(g.fd, true)) // else Go's runtime would not poll it
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	g.file = os.NewFile(uintptr(g.fd), "epoll")
	if g.raw, err = g.file.SyscallConn(); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return g, nil
}

// watch changes the events of a file that wake the sweeper.
func (g *gate) watch(what, fd int, events uint32) error {
	return unix.EpollCtl(g.fd, what, fd, &unix.EpollEvent{Events: events | unix.EPOLLET})
}

// ready puts the sockets that are ready into events, and returns how many it has put, without waiting. 0: none is, or
// the gate is closed.
func (g *gate) ready(events []unix.EpollEvent) int {
	for {
		n, _, err := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(g.sockets), uintptr(unsafe.Pointer(&events[0])),
			uintptr(len(events)), 0, 0, 0)
		switch err {
		case 0:
			return int(n)
		case unix.EINTR:
		default:
			return 0
		}
	}
}

// rest decides what wakes the sweeper next. It is called when all that was ready has been read. open returns how many
// sockets there are.
func (g *gate) rest(open func() int) {
	if g.napping && g.reads < napReads || !g.napping && g.reads >= decideAfter {
		now := clock.Now()
		often := now.Sub(g.since) < time.Duration(g.reads/napReads)*nap // never after a nap with fewer reads
		g.since, g.reads = now, 0
		g.setNapping(often && open() >= napSockets)
	}
	if g.napping {
		g.reads = 0
		_ = kernel.SetTimer(g.timer, clock.Now().Add(nap)) // it cannot fail with a timerfd
	}
}

// setNapping sets whether the sockets do not wake the sweeper. If the kernel refuses a change, there is none.
func (g *gate) setNapping(napping bool) {
	events := uint32(unix.EPOLLIN)
	if napping {
		events = 0
	}
	if napping != g.napping && g.watch(unix.EPOLL_CTL_MOD, g.sockets, events) == nil {
		g.napping = napping
	}
}

// closeFiles closes the files that the gate watches.
func (g *gate) closeFiles() {
	unix.Close(g.sockets)
	unix.Close(g.timer)
}
