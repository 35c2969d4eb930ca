//go:build !linux

package stream

import (
	"context"
	"net"
	"syscall"
	"time"

	"github.com/spate-load/spate/clock"
)

// socket is a TCP connection that knows when the program read the bytes it gave last: there are no stamps to be had
// here, and every read is counted so. One goroutine at a time may read.
type socket struct {
	net.Conn
	last reading
	rtt  time.Duration // 0: not known
}

// sweepers are none: each goroutine reads its own socket.
type sweepers struct{}

func (*sweepers) close() {}

func holdStamping() {}

func askForStamps(syscall.RawConn) error { return nil }

func newSocket(c net.Conn, _ *sweepers) (*socket, error) { return &socket{Conn: c}, nil }

// Read reads as net.Conn does and keeps the time of what it returns.
func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if n > 0 {
		now := clock.Now()
		s.last = reading{at: now, seen: now, number: s.last.number + 1}
	}
	return n, err
}

// otherBuffer is what push reads at once.
const otherBuffer = 4 << 10

// push gives what comes to a taker until that wants no more, and blocks until then. Its error is the reading's, io.EOF
// at the end of what the other side sent, or the context's.
func (s *socket) push(ctx context.Context, t taker) error {
	defer context.AfterFunc(ctx, func() { _ = s.SetReadDeadline(time.Unix(1, 0)) })()
	buffer := make([]byte, otherBuffer)
	for {
		n, err := s.Read(buffer)
		switch {
		case n > 0 && !t.take(buffer[:n], s.last):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
	}
}

// unread does not know.
func (s *socket) unread() bool { return false }
