package stream

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/spate-load/spate/clock"
)

// conn is what the Transport holds: plain bytes, over TLS or not, with a record of what the present exchange did on it.
type conn struct {
	net.Conn              // the socket, or TLS over it
	socket   *socket      // where the bytes come from
	frames   *http2Frames // nil: it speaks HTTP/1.1
	opened   opened
	rtt      time.Duration // see socket
	forget   func(*conn)
	closing  sync.Once
	mu       sync.Mutex
	used     bool
	heard    bool          // something came
	agreed   bool          // TLS has settled the version of HTTP, or there is no TLS
	foreign  bool          // and it was of the other version of HTTP
	mute     chan struct{} // closed when reading has failed; nil: by HTTP/1.1 nobody waits for that
	muting   sync.Once
	alert    error // what the other side said as it ended TLS; nil: nothing
	wire     *wire // of the request that has the connection; nil between requests
}

// wire is what one request saw on its connection. The connection's lock guards it: net/http reads and writes on
// goroutines of its own, which go on after the request is done.
type wire struct {
	connected bool          // first request of the connection
	opened    opened        // of the first request
	rtt       time.Duration // of the first request; 0: not known
	first     clock.Instant // first byte of the response
	last      reading       // read that brought the last bytes of the response
	sent      clock.Instant // end of the last write
	written   int64         // bytes of the request that the kernel took
	unwritten bool          // a write is under way, or failed
	broken    bool          // a read or write failed, or the other side has ended
}

// end returns when the kernel had the whole of a request that was read to its end. A response can arrive before the
// goroutine that writes has noticed that its write is done; the request was written by then.
func (w *wire) end() clock.Instant {
	switch {
	case w.first != 0 && (w.unwritten || w.sent > w.first):
		return w.first
	case w.unwritten:
		return 0
	}
	return w.sent
}

// lend makes w the record of what happens from here on.
func (c *conn) lend(w *wire) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.used {
		w.connected, w.opened, w.rtt = true, c.opened, c.rtt
	}
	if c.frames != nil {
		c.frames.reset()
		w.unwritten = true
	}
	c.used = true
	c.wire = w
}

// take ends w's record, unless another request has the connection already.
func (c *conn) take(w *wire) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wire == w {
		c.wire = nil
	}
}

// Read reads and records when the bytes came.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		c.hear(p[:n])
	}
	if w := c.wire; w != nil {
		if n > 0 {
			w.last = c.socket.last
		}
		w.broken = w.broken || err != nil
	}
	if isAlert(err) {
		c.alert = err
	}
	if err != nil && c.mute != nil {
		c.muting.Do(func() { close(c.mute) })
	}
	return n, err
}

// hear looks at what came. The connection is locked.
func (c *conn) hear(p []byte) {
	if c.frames != nil {
		c.frames.arrived(p, c.socket.last)
	}
	if !c.heard {
		c.heard = true
		c.foreign = c.frames == nil && beginsHTTP2(p) || c.frames != nil && beginsHTTP1(p)
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

// writeFrames writes and records when the last frame of the request was taken. What is written behind it is about what
// was received.
func (c *conn) writeFrames(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	at := clock.Now()
	if err != nil {
		c.hearOut()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	wrote := c.frames.out.scan(p[:n])
	c.frames.sent = c.frames.sent || wrote.ended
	if w := c.wire; w != nil {
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

// lastWords is how long the reader of a connection that cannot be written to any more may take to its end.
const lastWords = 100 * time.Millisecond

// hearOut waits until the reader has come to the end of a connection whose other side has left: what that said before,
// such as why it refuses, must not be lost as the library closes the connection over the failed write.
func (c *conn) hearOut() {
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-c.mute:
	case <-timer.C:
	}
}

// beginWrite returns whom a write belongs to.
func (c *conn) beginWrite() *wire {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wire != nil {
		c.wire.unwritten = true
	}
	return c.wire
}

// Close closes the connection. It may be called again.
func (c *conn) Close() error {
	c.closing.Do(func() { c.forget(c) })
	return c.Conn.Close()
}

// gotFirstByte records that the read before brought the first byte of the response.
func (c *conn) gotFirstByte(w *wire) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.first = w.last.at
}

// record returns w as it is now.
func (c *conn) record(w *wire) wire {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *w
}

// arrival returns when the last bytes came.
func (c *conn) arrival(w *wire) reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frames != nil && c.frames.given > 0 {
		return c.frames.last
	}
	return w.last
}

// unread says whether something came that was not read yet.
func (c *conn) unread() bool {
	c.mu.Lock()
	ahead := c.frames != nil && c.frames.first < len(c.frames.marks)
	c.mu.Unlock()
	return ahead || c.socket.unread()
}

// push gives what comes on a connection without TLS to a taker until that wants no more, and blocks until then. See
// socket.push.
func (c *conn) push(ctx context.Context, w *wire, t taker) error {
	err := c.socket.push(ctx, t)
	c.mu.Lock()
	defer c.mu.Unlock()
	w.broken = w.broken || err != nil
	return err
}

// refusal is what the other side said as it ended TLS. Nil: nothing.
func (c *conn) refusal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.alert
}

// spokeOther says whether the other side speaks the other version of HTTP.
func (c *conn) spokeOther() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.foreign
}

// silent says whether the other side has not said a word though TLS stands, and has not agreed to the version of HTTP
// either.
func (c *conn) silent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.heard && !c.agreed
}

// mayGive is how many bytes the body of a response by HTTP/2 may give out at once.
func (c *conn) mayGive() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frames.next()
}

// gave takes in that the body gave out some bytes.
func (c *conn) gave(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames.gave(n)
}

// sentAll says whether the present request was sent to its end.
func (c *conn) sentAll() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frames.sent
}
