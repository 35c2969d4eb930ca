package wire

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/spate-load/spate/agent/stream/socket"
	"github.com/spate-load/spate/clock"
)

// Conn is a connection of a Pool, with or without TLS. It records what the current request does on it.
type Conn struct {
	net.Conn                     // the socket, or TLS over it
	Socket        *socket.Socket // what Conn reads from
	frames        *http2Frames   // nil: it speaks HTTP/1.1
	openTimes     OpenTimes
	rtt           time.Duration // see socket.Socket
	remove        func(*Conn)
	closeOnce     sync.Once
	mu            sync.Mutex
	used          bool
	received      bool          // some bytes were received
	otherHTTP     bool          // the first bytes were of the other version of HTTP
	httpAgreed    bool          // the TLS handshake agreed on a version of HTTP, or there is no TLS
	readEnded     chan struct{} // closed when reading has failed; nil: HTTP/1.1, where nothing waits for it
	readEndedOnce sync.Once
	alert         error         // the peer's TLS alert; nil: none
	current       *RequestIO    // nil between requests
	late          time.Duration // see RequestIO.PreviousLate; not yet told
}

// RequestIO records what one request does on its connection. The connection's lock guards it: goroutines that write a
// request, or those of HTTP/2, can outlive the request.
type RequestIO struct {
	Connected bool           // the request is the first on the connection
	OpenTimes OpenTimes      // of the first request
	RTT       time.Duration  // of the first request; 0: not known
	FirstByte clock.Instant  // first byte of the response
	last      socket.Reading // read that brought the last bytes of the response
	sent      clock.Instant  // end of the last write
	Written   int64          // bytes of the request that the kernel took
	unwritten bool           // a write is in progress, or has failed
	Broken    bool           // a read or write failed, or the peer has closed
	// LateEnd: the body of the response had not ended a millisecond after its last event. How long that took is known
	// only later: PreviousLate is the time of the previous response on the connection, 0 if it did not end late.
	LateEnd      bool
	PreviousLate time.Duration
}

// End returns when the kernel had all of a request whose body was read to its end. A response can arrive before the
// writing goroutine has noticed that its write is done. Then the first byte of the response is the time.
func (w *RequestIO) End() clock.Instant {
	switch {
	case w.FirstByte != 0 && (w.unwritten || w.sent > w.FirstByte):
		return w.FirstByte
	case w.unwritten:
		return 0
	}
	return w.sent
}

// StartRequest makes the connection record in w from now on.
func (c *Conn) StartRequest(w *RequestIO) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.used {
		w.Connected, w.OpenTimes, w.RTT = true, c.openTimes, c.rtt
	}
	w.PreviousLate, c.late = c.late, 0
	if c.frames != nil {
		c.frames.reset()
		w.unwritten = true
	}
	c.used = true
	c.current = w
}

// EndRequest ends recording in w, unless another request already has the connection.
func (c *Conn) EndRequest(w *RequestIO) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == w {
		c.current = nil
	}
}

// endsLate records that the body of the current response has not ended in time.
func (c *Conn) endsLate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		c.current.LateEnd = true
	}
}

// endedLate records that the body of a response has ended, and returns how long after its last event.
func (c *Conn) endedLate(event clock.Instant) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = c.Socket.Last.At.Sub(event)
	return c.late
}

// Read reads and records when the bytes came.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		c.inspect(p[:n])
	}
	if w := c.current; w != nil {
		if n > 0 {
			w.last = c.Socket.Last
		}
		w.Broken = w.Broken || err != nil
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
func (c *Conn) inspect(p []byte) {
	if c.frames != nil {
		c.frames.arrived(p, c.Socket.Last)
	}
	if !c.received {
		c.received = true
		c.otherHTTP = c.frames == nil && beginsHTTP2(p) || c.frames != nil && beginsHTTP1(p)
	}
}

// Write writes and records how much of it the kernel took.
func (c *Conn) Write(p []byte) (int, error) {
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
	w.Written += int64(n)
	w.sent, w.unwritten = at, err != nil
	w.Broken = w.Broken || err != nil
	return n, err
}

// writeFrames writes and records when the kernel took the last frame of the request. Frames written after it only
// acknowledge what was received.
func (c *Conn) writeFrames(p []byte) (int, error) {
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
			w.Written += int64(n)
		}
		if wrote.ended {
			w.sent, w.unwritten = at, false
		}
		w.Broken = w.Broken || err != nil
	}
	return n, err
}

// readEndWait is how long the reader may take to reach the end of a connection after a write has failed.
const readEndWait = 100 * time.Millisecond

// awaitReadEnd waits until the reader has reached the end of a connection that the peer has closed. The library closes
// the connection when a write fails; without the wait, the peer's last bytes, such as the reason for a refusal, would
// be lost.
func (c *Conn) awaitReadEnd() {
	timer := time.NewTimer(readEndWait)
	defer timer.Stop()
	select {
	case <-c.readEnded:
	case <-timer.C:
	}
}

// beginWrite marks the start of a write and returns the current RequestIO, nil for none.
func (c *Conn) beginWrite() *RequestIO {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		c.current.unwritten = true
	}
	return c.current
}

// Close closes the connection. It may be called again.
func (c *Conn) Close() error {
	c.closeOnce.Do(func() { c.remove(c) })
	return c.Conn.Close()
}

// gotFirstByte records that the last read brought the first byte of the response.
func (c *Conn) gotFirstByte(w *RequestIO) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.FirstByte = w.last.At
}

// StateOf returns a copy of w.
func (c *Conn) StateOf(w *RequestIO) RequestIO {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *w
}

// Arrival returns when the last bytes came.
func (c *Conn) Arrival(w *RequestIO) socket.Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frames != nil && c.frames.returned > 0 {
		return c.frames.last
	}
	return w.last
}

// Unread reports whether received bytes have not been read yet.
func (c *Conn) Unread() bool {
	c.mu.Lock()
	ahead := c.frames != nil && c.frames.first < len(c.frames.marks)
	c.mu.Unlock()
	return ahead || c.Socket.Unread()
}

// push passes the bytes of a connection without TLS to a consumer, and blocks until the consumer wants no more. See
// socket.Socket.Push.
func (c *Conn) push(ctx context.Context, w *RequestIO, t socket.Consumer) error {
	err := c.Socket.Push(ctx, t)
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Broken = w.Broken || err != nil
	return err
}

// TLSAlert returns the peer's TLS alert, with what to do about it. Nil: none.
func (c *Conn) TLSAlert() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return withAdvice(c.alert, "")
}

// OtherHTTPError returns an error if the peer speaks the other version of HTTP. Nil: it does not.
func (c *Conn) OtherHTTPError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.otherHTTP:
		return nil
	case c.frames != nil:
		return errNoHTTP2
	}
	return errOnlyHTTP2
}

// Silent reports whether the peer has sent nothing since the TLS handshake, in which it did not agree on a version of
// HTTP.
func (c *Conn) Silent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.received && !c.httpAgreed
}

// readLimit returns how many bytes one Read of an HTTP/2 body may return.
func (c *Conn) readLimit() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frames.readLimit()
}

// countReturned records that the body returned n bytes.
func (c *Conn) countReturned(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames.countReturned(n)
}

// sentAll reports whether all of the current request was sent.
func (c *Conn) sentAll() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frames.sent
}
