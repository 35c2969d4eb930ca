package stream

import (
	"net"
	"time"

	"github.com/spate-load/spate/clock"
)

// reading is when one read's bytes came.
type reading struct {
	at      clock.Instant // when the last of them reached this machine
	seen    clock.Instant // when the program had them
	number  uint64        // counts the reads of the socket, from 1
	stamped bool          // at is the kernel's
}

// lag is how long the bytes waited for the program.
func (r reading) lag() int64 { return int64(r.seen.Sub(r.at)) }

// socket is a TCP connection that knows when the bytes it gave last were received. One goroutine at a time may read.
type socket struct {
	net.Conn
	stamps stamps
	last   reading
	rtt    time.Duration // round trip of the connection's handshake by the kernel's own measure; 0: not known
}

// Read reads as net.Conn does and keeps the time of what it returns.
func (s *socket) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := s.stamps.read(s.Conn, p)
	if n > 0 {
		s.mark()
	}
	return n, err
}

// Write writes as net.Conn does. One goroutine at a time may write.
func (s *socket) Write(p []byte) (int, error) { return s.stamps.write(s.Conn, p) }

// mark notes when the bytes of a read came. Bytes of one connection come in order: a stamp that follows a time taken from the
// program's clock is not allowed to go before it.
func (s *socket) mark() {
	at, seen, stamped := s.stamps.when()
	s.last = reading{at: max(at, s.last.at), seen: seen, number: s.last.number + 1, stamped: stamped}
}
