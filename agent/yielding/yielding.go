// Package yielding makes connections that give way: their data does not fill the queues of the network, so small
// messages of other connections over the same link still arrive promptly.
//
// TCP sends until a queue overflows. On a link of 64 kbit/s behind a queue of 256 KiB that means 32 s of delay for
// everything, far more than a coordinator waits for a heartbeat. A yielding connection watches the round trip instead,
// as LEDBAT does (RFC 6817). While the round trip is not much longer than the shortest one, the connection keeps more
// and more data in flight. Above that it sends a few packets at a time, which is enough to keep a slow link busy.
// Agents use such a connection for measurements and datasets. Where the kernel does not report the round trip,
// connections are ordinary ones.
package yielding

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
)

const (
	// chunkBytes is how much is handed to the kernel at a time, and how much is in flight when others need the link:
	// half a second at 64 kbit/s.
	chunkBytes = 4 << 10
	// maxWindow bounds the window: 10 Gbit/s at 10 ms, or 80 MB/s at 150 ms.
	maxWindow = 12 << 20
	// maxQueueing is by how much the round trip may exceed the shortest one before the connection gives way.
	maxQueueing = 150 * time.Millisecond
	// pollPause is the pause before the connection checks again.
	pollPause = 10 * time.Millisecond
)

// Credentials returns credentials whose connections yield. Everything else is left to the given ones.
func Credentials(of credentials.TransportCredentials) credentials.TransportCredentials {
	return yielding{of}
}

type yielding struct {
	credentials.TransportCredentials
}

// ClientHandshake wraps raw to make it yield, below the other credentials' own layers.
func (y yielding) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	return y.TransportCredentials.ClientHandshake(ctx, authority, Conn(raw))
}

// Clone returns a copy.
func (y yielding) Clone() credentials.TransportCredentials {
	return yielding{y.TransportCredentials.Clone()}
}

// state is the kernel's view of a connection.
type state struct {
	unacked       int           // bytes handed to the kernel and not acknowledged
	rtt, shortest time.Duration // smoothed round trip, and the shortest of the last minutes
}

// window is how many bytes may be in flight. It doubles after it was full and half of it has arrived without a queue.
// It drops to chunkBytes as soon as there is a queue. The kernel's own window grows with everything that arrives, and
// its round trip lags behind the queue; a window that grows step by step overshoots by at most one step.
type window struct {
	bytes int
	full  bool // all of the window was in flight
}

// admits reports whether another chunk may be handed to the kernel, and updates the window.
func (w *window) admits(s state) bool {
	switch {
	case s.rtt-s.shortest > maxQueueing:
		w.bytes, w.full = chunkBytes, false
	case w.full && s.unacked <= w.bytes/2:
		w.bytes, w.full = min(2*w.bytes, maxWindow), false
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
	look   func() (state, bool) // false: the kernel does not tell
	window window
}

// Write writes all of p, and blocks while the link is busy. It returns an error when the connection is closed. It must
// not be called concurrently.
func (c *conn) Write(p []byte) (written int, err error) {
	for len(p) > 0 {
		c.await()
		n, err := c.Conn.Write(p[:min(chunkBytes, len(p))])
		written += n
		if err != nil {
			return written, err
		}
		p = p[n:]
	}
	return written, nil
}

// await blocks until another chunk may be handed to the kernel, or the connection is closed.
func (c *conn) await() {
	for {
		if s, known := c.look(); !known || c.window.admits(s) {
			return
		}
		time.Sleep(pollPause)
	}
}
