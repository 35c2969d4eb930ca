package socket

import (
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/internal/kernel"
)

// Sweepers read the sockets of a client. Each socket belongs to one sweeper. There are at most GOMAXPROCS sweepers,
// created when needed.
type Sweepers struct {
	// PacketTimes makes the sockets of Dial read when each packet arrived, however late the program reads it. Where
	// the system refuses that (see CheckPacketTimes), reads have the kernel's timestamps.
	PacketTimes bool

	mu     sync.Mutex
	all    []*sweeper
	turn   int
	closed bool
}

// next returns the sweeper for the next socket, in turn.
func (s *Sweepers) next() (*sweeper, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	s.turn++
	if len(s.all) < runtime.GOMAXPROCS(0) {
		w, err := newSweeper(s.PacketTimes)
		if err != nil {
			return nil, err
		}
		s.all = append(s.all, w)
		return w, nil
	}
	return s.all[s.turn%len(s.all)], nil
}

// Close stops the sweepers and waits for them. Their sockets are closed already.
func (s *Sweepers) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, w := range s.all {
		w.close()
	}
}

// sweeper reads many sockets on one goroutine. One goroutine for each socket would be woken for each frame, and with a
// thousand streams each wake-up misses the cache for its stack, its scheduling state and its buffers: that took longer
// than the reading itself. The sweeper's gate is registered with Go's runtime poller, which wakes the sweeper when a
// socket is ready. The sweeper then reads until none is.
type sweeper struct {
	gate       *gate
	done       chan struct{} // closed when the goroutine has ended
	events     [sweepBatch]unix.EpollEvent
	batch      [sweepBatch]*Socket
	receiver   receiver
	arrivals   *arrivals // nil: reads have the kernel's timestamps
	yieldAfter int       // sockets read before it yields
	sinceYield int       // sockets read since it yielded

	mu    sync.Mutex
	slots []*Socket // by the number that is registered with epoll; nil: free
	free  []int32
}

const (
	// sweepBatch is how many sockets are read between two epoll calls.
	sweepBatch = 128
	// sweepBuffer is larger than what a socket holds, unless the program is far behind.
	sweepBuffer = 64 << 10
	// sweepTurn is how many sockets are read in a row before the sweeper yields to other goroutines. On a machine with
	// one processor, the start of a request waits no longer than that.
	sweepTurn = 8
	// sweepTurnOfMany is sweepTurn for more processors. There an idle processor runs a goroutine that becomes ready, so
	// the sweeper yields less often: after a yield it may continue on another processor, without its cache.
	sweepTurnOfMany = 64
)

func newSweeper(packetTimes bool) (s *sweeper, err error) {
	g, err := openGate()
	if err != nil {
		return nil, err
	}
	s = &sweeper{
		gate: g, done: make(chan struct{}), yieldAfter: sweepTurn,
		receiver: receiver{buffer: make([]byte, sweepBuffer)},
	}
	if runtime.GOMAXPROCS(0) > 1 {
		s.yieldAfter = sweepTurnOfMany
	}
	if packetTimes {
		s.arrivals, _ = newArrivals()
	}
	go s.run()
	return s, nil
}

// run sweeps until the sweeper is closed.
func (s *sweeper) run() {
	defer close(s.done)
	for {
		if err := s.gate.raw.Read(s.sweep); err != nil {
			return
		}
	}
}

// sweep reads all sockets that are ready. It returns false, so that RawConn.Read waits and calls it again.
func (s *sweeper) sweep(uintptr) bool {
	for {
		n := s.gate.ready(s.events[:])
		if n > 0 {
			s.readBatch(n)
		}
		if n == 0 || s.gate.napping && n < sweepBatch {
			s.sinceYield = 0
			if s.arrivals != nil {
				s.gate.rest(s.open)
			}
			return false
		}
	}
}

// open returns how many sockets the sweeper has.
func (s *sweeper) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.slots) - len(s.free)
}

// readBatch reads the sockets of the first n events.
func (s *sweeper) readBatch(n int) {
	s.gate.reads += n
	s.mu.Lock()
	for i := range n {
		s.batch[i] = s.slots[s.events[i].Fd]
	}
	s.mu.Unlock()
	for i, socket := range s.batch[:n] {
		if socket != nil { // nil: closed in the meantime
			socket.handle(s.events[i].Events, &s.receiver)
		}
		if s.sinceYield++; s.sinceYield == s.yieldAfter {
			s.sinceYield = 0
			runtime.Gosched()
		}
	}
	clear(s.batch[:n])
}

const sweepEvents = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET

// add registers a socket.
func (s *sweeper) add(k *Socket) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		k.slot, s.free = s.free[n-1], s.free[:n-1]
		s.slots[k.slot] = k
	} else {
		k.slot = int32(len(s.slots))
		s.slots = append(s.slots, k)
	}
	if err := s.control(unix.EPOLL_CTL_ADD, k, sweepEvents); err != nil {
		s.release(k)
		return err
	}
	return nil
}

// rearm makes epoll report a socket again: after the others, for what is still unread, and when the kernel accepts more
// to send. If no write waits for that, the report has no effect.
func (s *sweeper) rearm(k *Socket) error {
	return s.control(unix.EPOLL_CTL_MOD, k, sweepEvents|unix.EPOLLOUT)
}

// control changes what epoll watches.
func (s *sweeper) control(what int, k *Socket, events uint32) error {
	event := unix.EpollEvent{Events: events, Fd: k.slot}
	if err := unix.EpollCtl(s.gate.sockets, what, k.fd, &event); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// drop forgets a socket. The caller then closes it, which removes it from epoll.
func (s *sweeper) drop(k *Socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(k)
}

func (s *sweeper) release(k *Socket) {
	s.slots[k.slot] = nil
	s.free = append(s.free, k.slot)
}

// close stops the sweeper's goroutine and waits for it.
func (s *sweeper) close() {
	_ = s.gate.file.Close()
	<-s.done
	s.gate.closeFiles()
	if s.arrivals != nil {
		s.arrivals.close()
	}
}

// receiver reads sockets into its own buffer.
type receiver struct {
	kernel.Receiver
	buffer []byte
	pieces []piece // of the last read
}

// smallBuffer is the buffer size of readers that are not sweepers.
const smallBuffer = 4 << 10

// receivers are for reads outside a sweeper's goroutine.
var receivers = sync.Pool{New: func() any { return &receiver{buffer: make([]byte, smallBuffer)} }}
