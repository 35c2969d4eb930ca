package stream

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sweepers read the sockets of a client, each socket by one of them. There are as many as processors, each made when it
// is needed.
type sweepers struct {
	mu     sync.Mutex
	all    []*sweeper
	turn   int
	closed bool
}

// next returns the sweeper whose turn it is to get a socket.
func (s *sweepers) next() (*sweeper, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	s.turn++
	if len(s.all) < runtime.GOMAXPROCS(0) {
		w, err := newSweeper()
		if err != nil {
			return nil, err
		}
		s.all = append(s.all, w)
		return w, nil
	}
	return s.all[s.turn%len(s.all)], nil
}

// close ends the sweepers, whose sockets are closed, and waits for them.
func (s *sweepers) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, w := range s.all {
		w.close()
	}
}

// sweeper reads many sockets on one goroutine. A goroutine for each would be woken for each frame, and with a thousand
// streams each wake-up finds its stack, its scheduling and its buffers in slow memory: that took longer than the
// reading. Its epoll instance lies in that of Go's runtime, which wakes the sweeper when there is anything; then it
// goes on as long as there is more.
type sweeper struct {
	file     *os.File // the epoll instance
	raw      syscall.RawConn
	epoll    int
	done     chan struct{} // closed when its goroutine has ended
	events   [sweepBatch]unix.EpollEvent
	batch    [sweepBatch]*socket
	receiver receiver
	longest  int // turn
	read     int // sockets in the present one

	mu    sync.Mutex
	slots []*socket // by the number that epoll knows them by; nil: free
	free  []int32
}

const (
	// sweepBatch is how many sockets are read before epoll is asked again.
	sweepBatch = 128
	// sweepBuffer is more than a socket has unless the program is far behind.
	sweepBuffer = 64 << 10
	// sweepTurn is how many sockets are read on end before other goroutines have their turn: who is to start a request
	// on a machine with one processor waits no longer than that.
	sweepTurn = 8
	// sweepTurnOfMany is the same where there are more processors. What becomes ready there is run by another one if
	// that has nothing to do; and a turn that is given up is offered to all of them, which has the sweeper move from
	// one cache to another.
	sweepTurnOfMany = 64
)

func newSweeper() (*sweeper, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // or Go's runtime would not wait for it
		return nil, errors.Join(fmt.Errorf("epoll: %w", err), unix.Close(fd))
	}
	s := &sweeper{
		file: os.NewFile(uintptr(fd), "epoll"), epoll: fd, done: make(chan struct{}), longest: sweepTurn,
		receiver: receiver{buffer: make([]byte, sweepBuffer)},
	}
	if runtime.GOMAXPROCS(0) > 1 {
		s.longest = sweepTurnOfMany
	}
	if s.raw, err = s.file.SyscallConn(); err != nil {
		return nil, errors.Join(fmt.Errorf("epoll: %w", err), s.file.Close())
	}
	go s.run()
	return s, nil
}

// run reads until the sweeper is closed.
func (s *sweeper) run() {
	defer close(s.done)
	for {
		if err := s.raw.Read(s.sweep); err != nil {
			return
		}
	}
}

// sweep reads all sockets that have something. It is false: there will be more to wait for.
func (s *sweeper) sweep(epoll uintptr) bool {
	for {
		n, _, err := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, epoll, uintptr(unsafe.Pointer(&s.events[0])),
			sweepBatch, 0, 0, 0)
		switch {
		case err == unix.EINTR:
		case err != 0 || n == 0:
			s.read = 0
			return false
		default:
			s.readBatch(int(n))
		}
	}
}

// readBatch reads the first n sockets that have something.
func (s *sweeper) readBatch(n int) {
	s.mu.Lock()
	for i := range n {
		s.batch[i] = s.slots[s.events[i].Fd]
	}
	s.mu.Unlock()
	for i, socket := range s.batch[:n] {
		if socket != nil { // else it was closed in the meantime
			socket.notice(s.events[i].Events, &s.receiver)
		}
		if s.read++; s.read == s.longest {
			s.read = 0
			runtime.Gosched()
		}
	}
	clear(s.batch[:n])
}

const sweepFor = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET

// add has a socket read.
func (s *sweeper) add(k *socket) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		k.slot, s.free = s.free[n-1], s.free[:n-1]
		s.slots[k.slot] = k
	} else {
		k.slot = int32(len(s.slots))
		s.slots = append(s.slots, k)
	}
	if err := s.control(unix.EPOLL_CTL_ADD, k, sweepFor); err != nil {
		s.release(k)
		return err
	}
	return nil
}

// awaitRoom has a socket told when the kernel takes more to send, once.
func (s *sweeper) awaitRoom(k *socket) error {
	return s.control(unix.EPOLL_CTL_MOD, k, sweepFor|unix.EPOLLOUT)
}

// again has a socket noticed once more for what it was not read of, behind the others. It may wait for room, too, and
// would be told of that for nothing if it does not.
func (s *sweeper) again(k *socket) error {
	return s.control(unix.EPOLL_CTL_MOD, k, sweepFor|unix.EPOLLOUT)
}

// control changes what epoll watches. What it cannot watch any more for is not there to be told of.
func (s *sweeper) control(what int, k *socket, events uint32) error {
	event := unix.EpollEvent{Events: events, Fd: k.slot}
	if err := unix.EpollCtl(s.epoll, what, k.fd, &event); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// drop forgets a socket, which is closed thereupon: that takes it out of epoll.
func (s *sweeper) drop(k *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(k)
}

func (s *sweeper) release(k *socket) {
	s.slots[k.slot] = nil
	s.free = append(s.free, k.slot)
}

// close ends the sweeper's goroutine and waits for it.
func (s *sweeper) close() {
	_ = s.file.Close()
	<-s.done
}
