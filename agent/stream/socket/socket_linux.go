package socket

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

// Socket is a TCP connection that knows when the bytes of its last read were received. One goroutine at a time may
// read, and one may write.
//
// Its file descriptor is not registered with Go's runtime, which would wake a goroutine for every frame; a sweeper
// polls it. Received bytes are either returned by Read, as by any connection, or pushed to a consumer by the sweeper.
//
// The consumer is called with mu locked: that is why it is not called any more once Push has returned, when its memory
// may belong to another request. So the order of locks is mu first, then those that the consumer takes, and code that
// holds one of the latter must not use the socket. A consumer that is slow delays the other sockets of its sweeper, and
// Push of its own socket; maxPushReads bounds how much it gets in one turn.
type Socket struct {
	mu       sync.Mutex
	fd       int      // -1: closed
	consumer Consumer // receives what the sweeper reads; nil: Read returns the bytes
	Last     Reading  // of the last read
	flow     flow
	failed   error // why pushing ended

	sweeper  *sweeper
	slot     int32
	readable chan struct{} // holds one: there may be something to read, or pushing has ended
	writable chan struct{} // holds one: the kernel accepts more to send
	closed   chan struct{} // closed when the socket is
	reads    limit
	writes   limit

	RTT           time.Duration // round trip of the TCP handshake as the kernel measured it; 0: not known
	local, remote net.Addr
}

// Dial opens a TCP connection from the next address of sources in turn.
func (s *Sweepers) Dial(ctx context.Context, sources *Sources, addr string) (*Socket, error) {
	w, err := s.next()
	if err != nil {
		return nil, err
	}
	if w.arrivals == nil {
		return dial(ctx, sources, addr, w, prepareSocket)
	}
	a := attempts{arrivals: w.arrivals}
	k, err := dial(ctx, sources, addr, w, a.prepare)
	a.end(k)
	return k, err
}

func dial(ctx context.Context, sources *Sources, addr string, w *sweeper, prepare control) (*Socket, error) {
	c, err := sources.dial(ctx, addr, prepare)
	if err != nil {
		return nil, err
	}
	return wrap(c, w)
}

// wrap returns a socket for a connection. It closes the net.Conn in any case.
func wrap(c net.Conn, w *sweeper) (*Socket, error) {
	defer c.Close()
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("%T does not give access to its file descriptor", c)
	}
	fd, err := duplicate(sc)
	if err != nil {
		return nil, fmt.Errorf("duplicate the socket's file descriptor: %w", err)
	}
	s := &Socket{
		fd: fd, sweeper: w, RTT: roundTrip(fd), local: c.LocalAddr(), remote: c.RemoteAddr(),
		readable: make(chan struct{}, 1), writable: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	if w.arrivals != nil {
		w.arrivals.move(fd, &s.flow)
	}
	if err := w.add(s); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("register the socket with epoll: %w", err)
	}
	return s, nil
}

// duplicate returns a file descriptor of a socket that is not registered with Go's runtime. It is non-blocking, like
// the runtime's own.
func duplicate(c syscall.Conn) (fd int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	var failed error
	err = raw.Control(func(its uintptr) { fd, failed = unix.FcntlInt(its, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(err, failed)
}

// roundTrip returns the kernel's round-trip time of a connection. Right after connecting, that is the time from the SYN
// to its answer. 0: not known, which is not an error: the connection can be used.
func roundTrip(fd int) time.Duration {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return time.Duration(info.Rtt) * time.Microsecond
}

// Read implements net.Conn. It records when the bytes it returns were received.
func (s *Socket) Read(p []byte) (int, error) {
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
		if err := s.wait(s.readable, &s.reads); err != nil {
			return 0, err
		}
	}
}

// errAgain means that there is nothing to read, or no room to write, yet.
var errAgain = errors.New("the socket is not ready")

// tryRead reads what is available, or fails with errAgain.
func (s *Socket) tryRead(p []byte) (int, error) {
	r := receivers.Get().(*receiver) //nolint:forcetypeassert // the pool holds nothing else
	defer receivers.Put(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flow.cookie != 0 {
		if first := s.sweeper.arrivals.first(&s.flow); first > 0 {
			p = p[:min(first, len(p))]
		}
	}
	n, err := r.Receive(s.fd, p)
	switch {
	case err != 0:
		return 0, s.errorOf("recvmsg", err)
	case n == 0:
		return 0, io.EOF
	}
	by := readingOf(r)
	if s.flow.cookie != 0 {
		r.pieces = s.sweeper.arrivals.take(&s.flow, n, by, n < len(p), r.pieces[:0])
		by = r.pieces[len(r.pieces)-1].by
	}
	s.mark(by)
	return n, nil
}

// readingOf returns when the bytes of the last read came, without its number.
func readingOf(r *receiver) (by Reading) {
	by.At, by.Seen, by.Stamped = r.Times()
	return by
}

// mark numbers and records a reading. Bytes of one connection come in order, so a timestamp that follows a time of the
// program's clock must not be earlier than that time. The socket is locked.
func (s *Socket) mark(by Reading) {
	by.At, by.Number = max(by.At, s.Last.At), s.Last.Number+1
	s.Last = by
}

// errorOf returns the error that a system call's error number means. The socket is locked.
func (s *Socket) errorOf(call string, err syscall.Errno) error {
	switch {
	case s.fd < 0:
		return net.ErrClosed
	case err == unix.EAGAIN:
		return errAgain
	}
	return os.NewSyscallError(call, err)
}

// Write implements net.Conn. It blocks until the kernel has all of p.
func (s *Socket) Write(p []byte) (n int, err error) {
	for n < len(p) {
		if err := s.writes.over(); err != nil {
			return n, err
		}
		sent, err := s.tryWrite(p[n:])
		n += sent
		if errors.Is(err, errAgain) {
			err = s.wait(s.writable, &s.writes)
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// tryWrite writes what the kernel accepts without blocking. If that is nothing, it fails with errAgain, and the sweeper
// signals s.writable when it accepts more.
func (s *Socket) tryWrite(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := kernel.Send(s.fd, p)
	if err == 0 {
		return n, nil
	}
	if err == unix.EAGAIN {
		if failed := s.sweeper.rearm(s); failed != nil {
			return 0, failed
		}
	}
	return 0, s.errorOf("send", err)
}

// wait blocks until ready is signalled, the limit has passed or the socket is closed.
func (s *Socket) wait(ready <-chan struct{}, l *limit) error {
	select {
	case <-ready:
		return nil
	case <-l.passed():
		return os.ErrDeadlineExceeded
	case <-s.closed:
		return net.ErrClosed
	}
}

// Push passes received bytes to a consumer, and blocks until the consumer wants no more, reading fails or ctx ends. It
// returns the read error, io.EOF when the peer has closed, or the context's error. The consumer is called on the
// sweeper's goroutine, and on this one for bytes already received.
func (s *Socket) Push(ctx context.Context, t Consumer) error {
	if err := s.beginPush(t); err != nil {
		return err
	}
	for {
		if over, err := s.pushEnded(); over {
			return err
		}
		select {
		case <-s.readable:
		case <-ctx.Done():
			s.mu.Lock()
			s.consumer = nil
			s.mu.Unlock()
			return ctx.Err()
		}
	}
}

// beginPush makes the sweeper push to t. It reads what has come already, and the peer's close: epoll may have reported
// these before and does not report them again.
func (s *Socket) beginPush(t Consumer) error {
	r := receivers.Get().(*receiver) //nolint:forcetypeassert // the pool holds nothing else
	defer receivers.Put(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 {
		return net.ErrClosed
	}
	s.consumer, s.failed = t, nil
	s.pushAvailable(r, true)
	return nil
}

// pushEnded reports whether pushing has ended, and why.
func (s *Socket) pushEnded() (over bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.consumer == nil, s.failed
}

// maxPushReads is how many full buffers are read from a socket in a row. Without a limit, a server that sends faster
// than its bytes are parsed would occupy the sweeper forever, and hold the lock that a request needs to end.
const maxPushReads = 4

// pushAvailable pushes what is available. A read that does not fill the buffer has emptied the socket: epoll reports
// what comes later. If the peer may have closed, pushAvailable reads on until the end, as epoll does not report the
// close again. What is left after maxPushReads full buffers is read when the sweeper handles it again. The socket is
// locked.
func (s *Socket) pushAvailable(r *receiver, ended bool) {
	for range maxPushReads {
		n, err := r.Receive(s.fd, r.buffer)
		switch {
		case err == unix.EAGAIN:
			return
		case err != 0:
			s.endPush(os.NewSyscallError("recvmsg", err))
			return
		case n == 0:
			s.endPush(io.EOF)
			return
		}
		if !s.push(r, n) {
			s.endPush(nil)
			return
		}
		if n < len(r.buffer) && !ended {
			return
		}
	}
	if err := s.sweeper.rearm(s); err != nil {
		s.endPush(err)
	}
}

// push passes the n bytes that were read to the consumer. Each part that arrived by itself counts as a read. It returns
// false if the consumer wants no more, but passes all of them. The socket is locked.
func (s *Socket) push(r *receiver, n int) (more bool) {
	by, p := readingOf(r), r.buffer[:n]
	if s.flow.cookie == 0 {
		s.mark(by)
		return s.consumer.Consume(p, s.Last)
	}
	r.pieces = s.sweeper.arrivals.take(&s.flow, n, by, n < len(r.buffer), r.pieces[:0])
	for _, of := range r.pieces {
		s.mark(of.by)
		more = s.consumer.Consume(p[:of.bytes], s.Last)
		p = p[of.bytes:]
	}
	return more
}

// endPush ends pushing. The socket is locked.
func (s *Socket) endPush(err error) {
	s.consumer, s.failed = nil, err
	notify(s.readable)
}

// handle handles epoll's events of the socket. The sweeper calls it.
func (s *Socket) handle(events uint32, r *receiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 {
		return
	}
	if events&unix.EPOLLOUT != 0 {
		notify(s.writable)
	}
	if s.consumer == nil {
		notify(s.readable)
		return
	}
	s.pushAvailable(r, events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0)
}

// notify sends to a channel with a buffer of one, unless the buffer is full.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Unread reports whether the kernel has bytes that were not read yet. It has none for a closed socket.
func (s *Socket) Unread() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := unix.IoctlGetInt(s.fd, unix.TIOCINQ)
	return err == nil && n > 0
}

// Quiet reports whether an idle connection is still open and has nothing to read. Bytes on an idle connection would
// answer no request.
func (s *Socket) Quiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return kernel.Peek(s.fd) == unix.EAGAIN
}

// Close implements net.Conn. It may be called again.
func (s *Socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 {
		return net.ErrClosed
	}
	s.sweeper.drop(s)
	if s.flow.cookie != 0 {
		s.sweeper.arrivals.forget(s.flow.cookie)
	}
	err := unix.Close(s.fd)
	s.fd = -1
	if s.consumer != nil {
		s.endPush(net.ErrClosed)
	}
	s.reads.set(time.Time{}) // which ends their timers
	s.writes.set(time.Time{})
	close(s.closed)
	return os.NewSyscallError("close", err)
}

// LocalAddr implements net.Conn.
func (s *Socket) LocalAddr() net.Addr { return s.local }

// RemoteAddr implements net.Conn.
func (s *Socket) RemoteAddr() net.Addr { return s.remote }

// SetDeadline implements net.Conn.
func (s *Socket) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn. It does not affect Push, which its context ends.
func (s *Socket) SetReadDeadline(t time.Time) error {
	s.reads.set(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (s *Socket) SetWriteDeadline(t time.Time) error {
	s.writes.set(t)
	return nil
}

// HoldStamping is the function of package kernel. Systems other than Linux have no receive timestamps.
func HoldStamping() { kernel.HoldStamping() }

func askForStamps(c syscall.RawConn) error { return kernel.AskForStamps(c) }
