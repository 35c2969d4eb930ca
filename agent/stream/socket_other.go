//go:build !linux

package stream

import (
	"context"
	"net"
	"syscall"
	"time"

	"github.com/spate-load/spate/clock"
)

// socket is a TCP connection that knows when the program read the bytes of its last read. There are no kernel
// timestamps on this system, so every read is unstamped. One goroutine at a time may read.
type socket struct {
	net.Conn
	last reading
	rtt  time.Duration // 0: not known
}

// sweepers is empty: each goroutine reads its own socket.
type sweepers struct{}

func (*sweepers) close() {}

func holdStamping() {}

func askForStamps(syscall.RawConn) error { return nil }

func newSocket(c net.Conn, _ *sweepers) (*socket, error) { return &socket{Conn: c}, nil }

// Read implements net.Conn. It records when it returned bytes.
func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if n > 0 {
		now := clock.Now()
		s.last = reading{at: now, seen: now, number: s.last.number + 1}
	}
	return n, err
}

// otherBuffer is the buffer size of push.
const otherBuffer = 4 << 10

// push passes received bytes to a consumer, and blocks until the consumer wants no more, reading fails or ctx ends. It
// returns the read error, io.EOF when the peer has closed, or the context's error.
func (s *socket) push(ctx context.Context, to consumer) error {
	defer context.AfterFunc(ctx, func() { _ = s.SetReadDeadline(time.Unix(1, 0)) })()
	buffer := make([]byte, otherBuffer)
	for {
		n, err := s.Read(buffer)
		switch {
		case n > 0 && !to.consume(buffer[:n], s.last):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
	}
}

// unread returns false: on this system it is not known.
func (s *socket) unread() bool { return false }
