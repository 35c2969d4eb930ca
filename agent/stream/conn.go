package stream

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/spate-load/spate/agent/stream/socket"
	"github.com/spate-load/spate/clock"
)

// conn is a connection of a pool, with or without TLS. It records what the current request does on it.
type conn struct {
	net.Conn                     // the socket, or TLS over it
	socket        *socket.Socket // what Conn reads from
	frames        *http2Frames   // nil: it speaks HTTP/1.1
	openTimes     openTimes
	rtt           time.Duration // see socket
	remove        func(*conn)
	closeOnce     sync.Once
	mu            sync.Mutex
	used          bool
	received      bool          // some bytes were received
	otherHTTP     bool          // the first bytes were of the other version of HTTP
	httpAgreed    bool          // the TLS handshake agreed on a version of HTTP, or there is no TLS
	readEnded     chan struct{} // closed when reading has failed; nil: HTTP/1.1, where nothing waits for it
	readEndedOnce sync.Once
	alert         error      // the peer's TLS alert; nil: none
	current       *requestIO // nil between requests
}

// requestIO records what one request does on its connection. The connection's lock guards it: goroutines that write a
// request, or those of HTTP/2, can outlive the request.
type requestIO struct {
	connected bool           // the request is the first on the connection
	openTimes openTimes      // of the first request
	rtt       time.Duration  // of the first request; 0: not known
	first     clock.Instant  // first byte of the response
	last      socket.Reading // read that brought the last bytes of the response
	sent      clock.Instant  // end of the last write
	written   int64          // bytes of the request that the kernel took
	unwritten bool           // a write is in progress, or has failed
	broken    bool           // a read or write failed, or the peer has closed
}

// end returns when the kernel had all of a request whose body was read to its end. A response can arrive before the
// writing goroutine has noticed that its write is done. Then the first byte of the response is the time.
func (w *requestIO) end() clock.Instant {
	switch {
	case w.first != 0 && (w.unwritten || w.sent > w.first):
		return w.first
	case w.unwritten:
		return 0
	}
	return w.sent
}

// startRequest makes the connection record in w from now on.
func (c *conn) startRequest(w *requestIO) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.used {
		w.connected, w.openTimes, w.rtt = true, c.openTimes, c.rtt
	}
	if c.frames != nil {
		c.frames.reset()
		w.unwritten = true
	}
	c.used = true
	c.current = w
}

// endRequest ends recording in w, unless another request already has the connection.
func (c *conn) endRequest(w *requestIO) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == w {
		c.current = nil
	}
}

// Read reads and records when the bytes came.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		c.inspect(p[:n])
	}
	if w := c.current; w != nil {
		if n > 0 {
			w.last = c.socket.Last
		}
		w.broken = w.broken || err != nil
	}
	if isAlert(err) {
		c.alert = err
	}
	if err != nil && c.readEnded != nil {
		c.readEndedOnce.Do(func() { close(c.readEnded) })
	}
	return n, err
}

// inspect inspects received bytes. The connection is locked.
func (c *conn) inspect(p []byte) {
	if c.frames != nil {
		c.frames.arrived(p, c.socket.Last)
	}
	if !c.received {
		c.received = true
		c.otherHTTP = c.frames == nil && beginsHTTP2(p) || c.frames != nil && beginsHTTP1(p)
	}
}

// Write writes and records how much of it the kernel took.
func (c *conn) Write(p []byte) (int, error) {
	if c.frames != nil {
		return c.writeFrames(p)
	}
	w := c.beginWrite()
	n, err := c.Conn.Write(p)
	if w == nil {
		return n, err
	}
	at := clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	w.written += int64(n)
	w.sent, w.unwritten = at, err != nil
	w.broken = w.broken || err != nil
	return n, err
}

// writeFrames writes and records when the kernel took the last frame of the request. Frames written after it only
// acknowledge what was received.
func (c *conn) writeFrames(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	at := clock.Now()
	if err != nil {
		c.awaitReadEnd()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	wrote := c.frames.out.scan(p[:n])
	c.frames.sent = c.frames.sent || wrote.ended
	if w := c.current; w != nil {
		if wrote.message {
			w.written += int64(n)
		}
		if wrote.ended {
			w.sent, w.unwritten = at, false
		}
		w.broken = w.broken || err != nil
	}
	return n, err
}

// readEndWait is how long the reader may take to reach the end of a connection after a write has failed.
const readEndWait = 100 * time.Millisecond

// awaitReadEnd waits until the reader has reached the end of a connection that the peer has closed. The library closes
// the connection when a write fails; without the wait, the peer's last bytes, such as the reason for a refusal, would
// be lost.
func (c *conn) awaitReadEnd() {
	timer := time.NewTimer(readEndWait)
	defer timer.Stop()
	select {
	case <-c.readEnded:
	case <-timer.C:
	}
}

// beginWrite marks the start of a write and returns the current requestIO, nil for none.
func (c *conn) beginWrite() *requestIO {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		c.current.unwritten = true
	}
	return c.current
}

// Close closes the connection. It may be called again.
func (c *conn) Close() error {
	c.closeOnce.Do(func() { c.remove(c) })
	return c.Conn.Close()
}

// gotFirstByte records that the last read brought the first byte of the response.
func (c *conn) gotFirstByte(w *requestIO) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.first = w.last.At
}

// stateOf returns a copy of w.
func (c *conn) stateOf(w *requestIO) requestIO {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *w
}

// arrival returns when the last bytes came.
func (c *conn) arrival(w *requestIO) socket.Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frames != nil && c.frames.returned > 0 {
		return c.frames.last
	}
	return w.last
}

// unread reports whether received bytes have not been read yet.
func (c *conn) unread() bool {
	c.mu.Lock()
	ahead := c.frames != nil && c.frames.first < len(c.frames.marks)
	c.mu.Unlock()
	return ahead || c.socket.Unread()
}

// push passes the bytes of a connection without TLS to a consumer, and blocks until the consumer wants no more. See
// socket.push.
func (c *conn) push(ctx context.Context, w *requestIO, t socket.Consumer) error {
	err := c.socket.Push(ctx, t)
	c.mu.Lock()
	defer c.mu.Unlock()
	w.broken = w.broken || err != nil
	return err
}

// tlsAlert returns the peer's TLS alert. Nil: none.
func (c *conn) tlsAlert() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.alert
}

// speaksOtherHTTP reports whether the peer speaks the other version of HTTP.
func (c *conn) speaksOtherHTTP() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.otherHTTP
}

// silent reports whether the peer has sent nothing since the TLS handshake, in which it did not agree on a version of
// HTTP.
func (c *conn) silent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.received && !c.httpAgreed
}

// readLimit returns how many bytes one Read of an HTTP/2 body may return.
func (c *conn) readLimit() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frames.readLimit()
}

// countReturned records that the body returned n bytes.
func (c *conn) countReturned(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames.countReturned(n)
}

// sentAll reports whether all of the current request was sent.
func (c *conn) sentAll() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frames.sent
}
