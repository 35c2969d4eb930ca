// Package yielding makes connections that give way: what they carry does not fill the queues of the network, so that
// small messages of other connections over the same line still come through at once.
//
// TCP sends until a queue overflows. On a line of 64 kbit/s behind a queue of 256 KiB that is 32 s of delay for
// everybody, far more than a coordinator waits for a heartbeat. A yielding connection watches the round trip instead,
// as LEDBAT does (RFC 6817): as long as it is not much longer than the shortest one, it has more and more under way;
// above that a few packets at a time, which is enough to keep a thin line busy. Agents use one for measurements and
// datasets. Where the kernel does not tell the round trip, connections are as they always are.
package yielding

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
)

const (
	// piece is how much is handed to the kernel at a time, and how much is under way when others need the line: half a
	// second of 64 kbit/s.
	piece = 4 << 10
	// widest bounds the window: 10 Gbit/s over 10 ms, or 80 MB/s over 150 ms.
	widest = 12 << 20
	// queue is by how much the round trip may be longer than the shortest one before the connection gives way.
	queue = 150 * time.Millisecond
	// again is how long it waits before it looks again.
	again = 10 * time.Millisecond
)

// Credentials makes connections of other credentials yield.
func Credentials(of credentials.TransportCredentials) credentials.TransportCredentials {
	return yielding{of}
}

type yielding struct {
	credentials.TransportCredentials
}

// ClientHandshake makes the connection yield, below the other credentials' own.
func (y yielding) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn,
	credentials.AuthInfo, error) {
	return y.TransportCredentials.ClientHandshake(ctx, authority, Conn(raw))
}

// Clone returns a copy.
func (y yielding) Clone() credentials.TransportCredentials {
	return yielding{y.TransportCredentials.Clone()}
}

// state is what the kernel knows of a connection.
type state struct {
	unacked       int           // bytes that were handed to it and are not acknowledged
	rtt, shortest time.Duration // round trips: smoothed, and the shortest of the last minutes
}

// window is how many bytes may be under way. It doubles when all of it was and half of that has arrived without a
// queue, and is a piece as soon as there is one. The kernel's own window grows by what arrives at all, and its round
// trip lags behind the queue: a window that is tried out step by step overshoots by one step at most.
type window struct {
	bytes int
	full  bool // all of it was under way
}

// admits says whether another piece may be handed to the kernel.
func (w *window) admits(s state) bool {
	switch {
	case s.rtt-s.shortest > queue:
		w.bytes, w.full = piece, false
	case w.full && s.unacked <= w.bytes/2:
		w.bytes, w.full = min(2*w.bytes, widest), false
	}
	if s.unacked < w.bytes {
		return true
	}
	w.full = true
	return false
}

// conn is a connection that yields.
type conn struct {
	net.Conn
	look   func() (state, bool) // false: the kernel does not say
	window window
}

// Write writes all of p, and blocks as long as the line is busy. It ends with an error when the connection is closed.
// It must not be called concurrently.
func (c *conn) Write(p []byte) (written int, err error) {
	for len(p) > 0 {
		c.await()
		n, err := c.Conn.Write(p[:min(piece, len(p))])
		written += n
		if err != nil {
			return written, err
		}
		p = p[n:]
	}
	return written, nil
}

// await blocks until another piece may be handed to the kernel, or the connection is closed.
func (c *conn) await() {
	for {
		if s, known := c.look(); !known || c.window.admits(s) {
			return
		}
		time.Sleep(again)
	}
}
