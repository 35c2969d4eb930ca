package wire

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/agent/stream/socket"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/measure"
)

// http1Pool sends requests by HTTP/1.1. net/http parses the heads of responses, but its Transport is not used: it has
// two goroutines for each connection and one for each dial, and with a thousand streams these would have to be
// scheduled, one after another, before a request is sent. Here the caller's goroutine opens the connection, writes the
// request and reads the head of the response. Idle connections are reused, the last used first.
type http1Pool struct {
	dialer *dialer
	idle   idle[*http1Conn]
	late   atomic.Bool // bodies end later than lingerWait, so that it is not worth to linger
}

// http1Conn is a connection of the pool. Between requests nothing reads it.
type http1Conn struct {
	*Conn
	reader      *bufio.Reader
	origin      origin
	interrupted func() // method value of interrupt
	headLeft    int64  // bytes left for the head of the response
}

const (
	// readBuffer is small because a stream's frames are small and there can be 20,000 streams.
	readBuffer = 2 << 10
	// writeBuffer is the longest request, head included, that is written on its caller's goroutine. The kernel takes
	// that much at once.
	writeBuffer = 16 << 10
	// headLimit is the longest head of a response.
	headLimit = 256 << 10
	// maxInterim is how many responses are read before a request fails for want of a final one.
	maxInterim = 5
	// lingerWait is how long the caller waits for the end of a body after its last event: most servers write that end
	// apart. drainWait is how long the connection then waits for it in the background. drainLimit is how many more
	// bytes the body may have.
	lingerWait = time.Millisecond
	drainWait  = time.Second
	drainLimit = 256 << 10
	// idHeader carries a request's ID.
	idHeader = "X-Request-Id"
)

var (
	errHeadTooLong = errors.New("the head of the response is longer than 256 KiB")
	errOnlyInterim = errors.New("the server sent only interim responses (1xx)")
)

// roundTrip implements version.
func (p *http1Pool) roundTrip(ctx context.Context, q *Outgoing, user User) (*http.Response, error) {
	c, reused, err := p.idle.get(ctx, q, (*http1Conn).quiet, p.open)
	if err != nil {
		return nil, err
	}
	w := user.GotConn(c.Conn, reused)
	b := &HTTP1Body{conn: c, pool: p, ctx: ctx, stop: context.AfterFunc(ctx, c.interrupted)}
	// A server that disconnects while the request is being written may have sent a reason.
	unsent := p.send(b, q)
	response, err := c.receive(w)
	if err != nil {
		b.Close()
		b.writer.Wait() // whether any byte was written decides whether the request may be retried
		return nil, b.cause(cmp.Or(unsent, err))
	}
	b.body, b.noReuse = response.Body, p.dialer.alwaysNew || response.Close || unsent != nil
	b.framing.reset(len(response.TransferEncoding) > 0, response.ContentLength)
	response.Body = b
	return response, nil
}

// interrupt makes reads and writes that wait for the connection fail.
func (c *http1Conn) interrupt() { _ = c.SetDeadline(time.Unix(1, 0)) }

// open dials a new connection.
func (p *http1Pool) open(ctx context.Context, u *url.URL) (*http1Conn, error) {
	w, err := p.dialer.dial(ctx, u)
	if err != nil {
		return nil, err
	}
	c := &http1Conn{Conn: w, origin: originOf(u)}
	c.interrupted, c.reader = c.interrupt, bufio.NewReaderSize(c, readBuffer)
	return c, nil
}

// check implements version.
func (p *http1Pool) check(ctx context.Context, u *url.URL) error {
	c, err := p.open(ctx, u)
	if err != nil {
		return err
	}
	c.Close()
	return nil
}

// quiet reports whether an idle connection is still open and has no unread bytes. TLS may hold bytes that it has read
// ahead: the connection is read under an expired deadline, which returns only such bytes.
func (c *http1Conn) quiet() bool {
	if !c.Socket.Quiet() {
		return false
	}
	if _, secure := c.Conn.Conn.(*tls.Conn); !secure {
		return true
	}
	return c.silentUntil(time.Unix(1, 0))
}

// silentUntil reports whether no byte arrives until a deadline. It takes in what TLS sends for itself.
func (c *http1Conn) silentUntil(at time.Time) bool {
	_ = c.SetReadDeadline(at) // cannot fail
	_, err := c.Conn.Conn.Read(make([]byte, 1))
	_ = c.SetReadDeadline(time.Time{})
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// writeBuffers pools write buffers.
var writeBuffers = sync.Pool{New: func() any { b := make([]byte, 0, writeBuffer); return &b }}

// send writes a request. A short one is written in one system call. A long one is written by its own goroutine, since
// the server may answer before it has read all of the request.
func (p *http1Pool) send(b *HTTP1Body, q *Outgoing) error {
	part := writeBuffers.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	*part = p.appendHead((*part)[:0], q)
	if len(*part)+q.Length <= writeBuffer {
		defer writeBuffers.Put(part)
		return writeParts(b.conn.Conn, q.Body, part)
	}
	if !p.dialer.enter() {
		return socket.ErrClosed
	}
	c, wrote := b.conn.Conn, make(chan struct{})
	b.wrote = wrote
	b.writer.Go(func() {
		defer p.dialer.dials.Done()
		defer writeBuffers.Put(part)
		if writeParts(c, q.Body, part) == nil {
			close(wrote)
		}
	})
	return nil
}

// writeParts writes the content of part, followed by the body.
func writeParts(to io.Writer, body io.Reader, part *[]byte) error {
	b := *part
	for more := body != nil; ; b = b[:0] {
		for more && len(b) < cap(b) {
			n, err := body.Read(b[len(b):cap(b)])
			b, more = b[:len(b)+n], err == nil
		}
		if len(b) == 0 {
			return nil
		}
		if _, err := to.Write(b); err != nil || !more {
			return err
		}
	}
}

// appendHead writes the head of a request.
func (p *http1Pool) appendHead(dst []byte, q *Outgoing) []byte {
	dst = append(append(dst, q.Method...), ' ')
	proxy := p.dialer.proxy
	absolute := p.dialer.forwarded(q.URL)
	if absolute {
		dst = append(append(dst, "http://"...), q.URL.Host...)
	}
	dst = append(append(dst, q.URL.RequestURI()...), " HTTP/1.1\r\n"...)
	dst = append(appendHeader(dst, "Host", cmp.Or(q.Host, q.URL.Host)), q.Lines...)
	if q.ID != "" {
		dst = appendHeader(dst, idHeader, q.ID)
		if q.Traced {
			dst = append(measure.AppendTraceparent(append(dst, "Traceparent: "...), q.ID), "\r\n"...)
		}
	}
	if absolute && proxy.header != "" {
		dst = appendHeader(dst, "Proxy-Authorization", proxy.header)
	}
	if p.dialer.alwaysNew {
		dst = appendHeader(dst, "Connection", "close")
	}
	if q.Body != nil {
		dst = append(dst, "Content-Length: "...)
		dst = append(strconv.AppendInt(dst, int64(q.Length), 10), "\r\n"...)
	}
	return append(dst, "\r\n"...)
}

func appendHeader(dst []byte, name, value string) []byte {
	dst = append(append(dst, name...), ": "...)
	return append(append(dst, value...), "\r\n"...)
}

// receive blocks until the final response's head has been read.
func (c *http1Conn) receive(w *RequestIO) (*http.Response, error) {
	c.headLeft = headLimit
	for range maxInterim {
		if _, err := c.reader.Peek(1); err != nil {
			return nil, err
		}
		c.gotFirstByte(w)
		response, err := http.ReadResponse(c.reader, nil)
		if err != nil {
			return nil, err
		}
		if response.StatusCode/100 != 1 {
			c.headLeft = math.MaxInt64
			return response, nil
		}
		if response.StatusCode == http.StatusSwitchingProtocols {
			return nil, fmt.Errorf("the server switched to another protocol, %.40q", response.Header.Get("Upgrade"))
		}
	}
	return nil, errOnlyInterim
}

// Read reads for the buffer. It limits the length of a response's head while the head is being read.
func (c *http1Conn) Read(p []byte) (int, error) {
	if c.headLeft <= 0 {
		return 0, errHeadTooLong
	}
	n, err := c.Conn.Read(p)
	c.headLeft -= int64(n)
	return n, err
}

// HTTP1Body is the body of a response. It is either read, and then net/http decodes its framing, or followed, and then
// framing does.
type HTTP1Body struct {
	follower     Follower // each read needs what follows, up to followerDone: one cache line
	framing      framing
	failed       error         // the body's framing is invalid
	followerDone bool          // the follower needs no more
	doneAt       clock.Instant // when the bytes came after which it needed no more
	drainLeft    int           // bytes that may still come after that

	body    io.Reader
	conn    *http1Conn // nil: closed
	pool    *http1Pool
	ctx     context.Context // the request's
	stop    func() bool     // detaches from ctx
	wrote   chan struct{}   // closed when all of a long request was written; nil: a short one, written by send
	writer  sync.WaitGroup  // the goroutine that writes the request, if there is one
	noReuse bool            // the connection is not reused
	whole   bool            // the body was read to its end
}

// Follower receives a body as it arrives.
type Follower interface {
	// Consume receives a piece of the body, which it must not keep. It returns false if it needs no more. It must not
	// block and must not use the connection.
	Consume(data []byte, by socket.Reading) (more bool)
}

// Read implements io.Reader.
func (b *HTTP1Body) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err == nil {
		return n, nil
	}
	b.whole = b.whole || errors.Is(err, io.EOF)
	return n, b.cause(err)
}

// Follow passes the body to a follower, each piece with the read that brought it, and blocks until the body has ended
// or the follower needs no more. The error is then io.EOF.
func (b *HTTP1Body) Follow(w *RequestIO, f Follower) error {
	b.follower = f
	err := b.feed(w)
	b.whole = b.framing.whole
	switch {
	case b.failed != nil:
		return b.failed
	case b.whole, err == nil, errors.Is(err, io.EOF) && b.framing.left < 0:
		return io.EOF
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return b.cause(err)
}

// feed handles received bytes until no more are needed or the connection ends.
func (b *HTTP1Body) feed(w *RequestIO) error {
	c := b.conn
	for b.consumeBuffered(w) {
		if c.Conn.Conn == net.Conn(c.Socket) {
			return c.push(b.ctx, w, b)
		}
		if _, err := c.reader.Peek(1); err != nil {
			return err
		}
	}
	return nil
}

// consumeBuffered handles what the connection's buffer holds. It returns false if no more is needed.
func (b *HTTP1Body) consumeBuffered(w *RequestIO) (more bool) {
	r := b.conn.reader
	p, _ := r.Peek(r.Buffered()) // cannot fail
	more = b.Consume(p, b.conn.Arrival(w))
	_, _ = r.Discard(len(p))
	return more
}

// Consume implements socket.Consumer.
func (b *HTTP1Body) Consume(p []byte, by socket.Reading) (more bool) {
	for !b.framing.whole && b.failed == nil {
		data, rest, err := b.framing.next(p)
		switch {
		case err != nil:
			b.failed = err
			return false
		case len(data) == 0 && len(rest) == 0 && !b.framing.whole:
			return !b.followerDone
		case len(data) > 0 && !b.deliver(data, by):
			b.noReuse = true
			return false
		}
		p = rest
	}
	b.noReuse = b.noReuse || len(p) > 0 // bytes that answer no request
	return false
}

// deliver passes a piece of the body to the follower until that needs no more. It returns false once more than
// drainLimit bytes have come after that.
func (b *HTTP1Body) deliver(data []byte, by socket.Reading) bool {
	switch {
	case b.followerDone:
		b.drainLeft -= len(data)
	case !b.follower.Consume(data, by):
		b.followerDone, b.doneAt, b.drainLeft = true, by.At, drainLimit
	}
	return !b.followerDone || b.drainLeft > 0
}

// cause returns why the request failed: the context's error if the context ended it, else err.
func (b *HTTP1Body) cause(err error) error {
	if ended := b.ctx.Err(); ended != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return ended
	}
	return err
}

// Close returns the connection to the pool if both request and response are complete, else closes it. If the follower
// needs no more but the body has not ended, its end is waited for: for lingerWait, and then in the background, so that
// a server that ends its bodies late neither delays the next request nor costs a connection each time.
func (b *HTTP1Body) Close() error {
	c := b.conn
	if c == nil {
		return nil
	}
	b.conn = nil
	if !b.stop() || b.noReuse || !b.written() || !b.whole && !b.followerDone {
		return c.Close()
	}
	ended := b.whole || !b.pool.late.Load() && !errors.Is(b.drain(c, lingerWait), os.ErrDeadlineExceeded)
	if ended || !b.pool.dialer.enter() {
		return b.keep(c)
	}
	c.endsLate()
	go func() {
		defer b.pool.dialer.dials.Done()
		b.pool.late.Store(b.drain(c, drainWait) != nil || c.endedLate(b.doneAt) > lingerWait)
		_ = b.keep(c)
	}()
	return nil
}

// drain reads the rest of the body, for at most a time. It returns nil if the body has ended, or cannot end.
func (b *HTTP1Body) drain(c *http1Conn, within time.Duration) error {
	_ = c.SetReadDeadline(time.Now().Add(within)) // cannot fail
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	for !b.framing.whole && b.failed == nil && b.drainLeft > 0 {
		if _, err := c.reader.Peek(1); err != nil {
			return err
		}
		p, _ := c.reader.Peek(c.reader.Buffered()) // cannot fail
		b.Consume(p, c.Socket.Last)
		_, _ = c.reader.Discard(len(p))
	}
	b.whole = b.framing.whole
	return nil
}

// keep returns the connection to the pool if nothing is left on it, else closes it.
func (b *HTTP1Body) keep(c *http1Conn) error {
	if b.whole && !b.noReuse && c.reader.Buffered() == 0 {
		b.pool.idle.put(c.origin, c)
		return nil
	}
	return c.Close()
}

// written reports whether all of the request was written.
func (b *HTTP1Body) written() bool {
	if b.wrote == nil {
		return true
	}
	select {
	case <-b.wrote:
		return true
	default:
		return false
	}
}
