package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/internal/kernel"
)

// socket is a TCP connection that knows when the bytes it gave last were received. One goroutine at a time may read,
// and one write.
//
// Its descriptor is its own: a sweeper waits for it, and not Go's runtime, which would have a goroutine woken for every
// frame. What comes is either taken by Read, as from any connection, or pushed to a taker by the sweeper.
type socket struct {
	mu     sync.Mutex
	fd     int     // -1: closed
	taker  taker   // whom the sweeper pushes to; nil: Read takes what comes
	last   reading // of the last read
	failed error   // why nothing more could be pushed

	sweeper *sweeper
	slot    int32
	news    chan struct{} // holds one: something has come, or pushing is over
	room    chan struct{} // holds one: the kernel takes more
	gone    chan struct{} // closed with the socket
	reads   limit
	writes  limit

	rtt           time.Duration // round trip of the connection's handshake by the kernel's own measure; 0: not known
	local, remote net.Addr
}

// newSocket takes over a connection that was dialled with prepareSocket. It closes the net.Conn.
func newSocket(c net.Conn, sweepers *sweepers) (*socket, error) {
	defer c.Close()
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("%T gives no access to its socket", c)
	}
	fd, err := duplicate(sc)
	if err != nil {
		return nil, fmt.Errorf("get at the socket: %w", err)
	}
	s := &socket{
		fd: fd, rtt: roundTrip(fd), local: c.LocalAddr(), remote: c.RemoteAddr(),
		news: make(chan struct{}, 1), room: make(chan struct{}, 1), gone: make(chan struct{}),
	}
	if s.sweeper, err = sweepers.next(); err == nil {
		err = s.sweeper.add(s)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("wait for the socket: %w", err)
	}
	return s, nil
}

// duplicate returns a descriptor of a socket that Go's runtime knows nothing of. It does not block, as the runtime's
// own.
func duplicate(c syscall.Conn) (fd int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	var failed error
	err = raw.Control(func(its uintptr) {
		fd, failed = unix.FcntlInt(its, unix.F_DUPFD_CLOEXEC, 0)
	})
	return fd, errors.Join(err, failed)
}

// roundTrip asks the kernel how long the packets of a connection take there and back. Of a connection that was just
// made that is the time from its SYN to the answer. 0: the kernel does not say, which is no reason to do without the
// connection.
func roundTrip(fd int) time.Duration {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return time.Duration(info.Rtt) * time.Microsecond
}

// Read blocks until there are bytes, and keeps the time of what it returns.
func (s *socket) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if err := s.reads.over(); err != nil {
			return 0, err
		}
		n, err := s.tryRead(p)
		if !errors.Is(err, errAgain) {
			return n, err
		}
		if err := s.wait(s.news, &s.reads); err != nil {
			return 0, err
		}
	}
}

// errAgain says that there is nothing to read, or no room to write, yet.
var errAgain = errors.New("not yet")

// tryRead reads what there is, or fails with errAgain.
func (s *socket) tryRead(p []byte) (int, error) {
	r := receivers.Get().(*receiver) //nolint:forcetypeassert // the pool holds nothing else
	defer receivers.Put(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := r.Receive(s.fd, p)
	switch {
	case err != 0:
		return 0, s.because("recvmsg", err)
	case n == 0:
		return 0, io.EOF
	}
	s.mark(r)
	return n, nil
}

// mark notes when the bytes of a read came. Bytes of one connection come in order: a stamp that follows a time taken
// from the program's clock is not allowed to go before it. The socket is locked.
func (s *socket) mark(r *receiver) {
	at, seen, stamped := r.Times()
	s.last = reading{at: max(at, s.last.at), seen: seen, number: s.last.number + 1, stamped: stamped}
}

// because is what an error of a system call means. The socket is locked.
func (s *socket) because(call string, err syscall.Errno) error {
	switch {
	case s.fd < 0:
		return net.ErrClosed
	case err == unix.EAGAIN:
		return errAgain
	}
	return os.NewSyscallError(call, err)
}

// Write blocks until the kernel has all of p.
func (s *socket) Write(p []byte) (n int, err error) {
	for n < len(p) {
		if err := s.writes.over(); err != nil {
			return n, err
		}
		sent, err := s.tryWrite(p[n:])
		n += sent
		if errors.Is(err, errAgain) {
			err = s.wait(s.room, &s.writes)
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// tryWrite writes what the kernel takes at once. If it takes nothing it fails with errAgain, and the sweeper will tell
// when it does.
func (s *socket) tryWrite(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := kernel.Send(s.fd, p)
	if err == 0 {
		return n, nil
	}
	if err == unix.EAGAIN {
		if failed := s.sweeper.awaitRoom(s); failed != nil {
			return 0, failed
		}
	}
	return 0, s.because("send", err)
}

// wait blocks until there are news, the limit has passed or the socket is closed.
func (s *socket) wait(news <-chan struct{}, l *limit) error {
	select {
	case <-news:
		return nil
	case <-l.passed():
		return os.ErrDeadlineExceeded
	case <-s.gone:
		return net.ErrClosed
	}
}

// push gives what comes to a taker until that wants no more, and blocks until then. Its error is the reading's, io.EOF
// at the end of what the other side sent, or the context's. The taker is called on the sweeper's goroutine and, for
// what has come already, on this one.
func (s *socket) push(ctx context.Context, t taker) error {
	if err := s.begin(t); err != nil {
		return err
	}
	for {
		if over, err := s.pushed(); over {
			return err
		}
		select {
		case <-s.news:
		case <-ctx.Done():
			s.mu.Lock()
			s.taker = nil
			s.mu.Unlock()
			return ctx.Err()
		}
	}
}

// begin has the sweeper push. What has come by now, and the other side's end, the sweeper may have been told of before,
// and is not told again.
func (s *socket) begin(t taker) error {
	r := receivers.Get().(*receiver) //nolint:forcetypeassert // the pool holds nothing else
	defer receivers.Put(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 {
		return net.ErrClosed
	}
	s.taker, s.failed = t, nil
	s.pour(r, true)
	return nil
}

// pushed says whether pushing is over, and why.
func (s *socket) pushed() (over bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taker == nil, s.failed
}

// pourAtOnce is how many full buffers a socket is read in a row. A server that sends faster than its bytes are taken in
// would have the sweeper to itself for ever, and the lock that a request takes that is to end.
const pourAtOnce = 4

// pour pushes what there is. A read that does not fill the buffer has emptied the socket, unless the other side is
// known to have ended: what comes after it is told of anew, and so is what is left after a few full buffers. The socket
// is locked.
func (s *socket) pour(r *receiver, ended bool) {
	for range pourAtOnce {
		n, err := r.Receive(s.fd, r.buffer)
		switch {
		case err == unix.EAGAIN:
			return
		case err != 0:
			s.stop(os.NewSyscallError("recvmsg", err))
			return
		case n == 0:
			s.stop(io.EOF)
			return
		}
		s.mark(r)
		if !s.taker.take(r.buffer[:n], s.last) {
			s.stop(nil)
			return
		}
		if n < len(r.buffer) && !ended {
			return
		}
	}
	if err := s.sweeper.again(s); err != nil {
		s.stop(err)
	}
}

// stop ends pushing. The socket is locked.
func (s *socket) stop(err error) {
	s.taker, s.failed = nil, err
	notify(s.news)
}

// notice takes in what epoll says of the socket. The sweeper calls it.
func (s *socket) notice(events uint32, r *receiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 {
		return
	}
	if events&unix.EPOLLOUT != 0 {
		notify(s.room)
	}
	if s.taker == nil {
		notify(s.news)
		return
	}
	s.pour(r, events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0)
}

// notify sends to a channel that holds one, unless it does already.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// unread says whether the kernel has bytes that were not read yet. Of a closed socket it has none.
func (s *socket) unread() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := unix.IoctlGetInt(s.fd, unix.TIOCINQ)
	return err == nil && n > 0
}

// quiet says whether a connection that lies idle is still open and nothing has come on it, which would be no answer to
// anything.
func (s *socket) quiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return kernel.Peek(s.fd) == unix.EAGAIN
}

// Close implements net.Conn. It may be called again.
func (s *socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 {
		return net.ErrClosed
	}
	s.sweeper.drop(s)
	err := unix.Close(s.fd)
	s.fd = -1
	if s.taker != nil {
		s.stop(net.ErrClosed)
	}
	s.reads.end()
	s.writes.end()
	close(s.gone)
	return os.NewSyscallError("close", err)
}

// LocalAddr implements net.Conn.
func (s *socket) LocalAddr() net.Addr { return s.local }

// RemoteAddr implements net.Conn.
func (s *socket) RemoteAddr() net.Addr { return s.remote }

// SetDeadline implements net.Conn.
func (s *socket) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn. Pushing has none: its context ends it.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.reads.set(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (s *socket) SetWriteDeadline(t time.Time) error {
	s.writes.set(t)
	return nil
}

// holdStamping and askForStamps are kernel's; other systems have none.
func holdStamping() { kernel.HoldStamping() }

func askForStamps(c syscall.RawConn) error { return kernel.AskForStamps(c) }
