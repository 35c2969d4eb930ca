package stream

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
	"time"
)

// http1Pool sends requests by HTTP/1.1. net/http reads the responses; but its Transport's goroutines, two for each
// connection and one for each that is opened, stand in turn behind a thousand streams between a request and its way
// out. Here a request opens its connection, is written and has its response read on the goroutine of its caller.
// Connections that lie idle are taken again, the one used last first.
type http1Pool struct {
	dialer *dialer
	fresh  bool // each request has a connection of its own
	idle   idle[place, *http1Conn]
}

// place is where connections go.
type place struct{ scheme, host string }

// http1Conn is a connection of the pool. Between requests nobody reads it.
type http1Conn struct {
	*conn
	reader      *bufio.Reader
	place       place
	interrupted func() // interrupt, bound once
	headLeft    int64  // bytes that the head of the response may still have
}

const (
	// readBuffer is small because a stream's frames are, and because there can be 20,000 streams.
	readBuffer = 2 << 10
	// writeBuffer holds a request that is written on its caller's goroutine. The kernel takes that much at once.
	writeBuffer = 16 << 10
	// headLimit is the longest head of a response.
	headLimit = 256 << 10
	// mostInformed is how many responses may say that the real one is still to come.
	mostInformed = 5
	// mostStale is how many connections that ended while they lay idle a request may clear away before it opens one.
	mostStale = 4
	// idHeader names a request.
	idHeader = "X-Request-Id"
)

var (
	errHeadTooLong = errors.New("the head of the response is longer than 256 KiB")
	errNoEndOf1xx  = errors.New("only interim responses came")
)

func newHTTP1Pool(d *dialer, fresh bool) *http1Pool {
	return &http1Pool{dialer: d, fresh: fresh}
}

// roundTrip implements pool.
func (p *http1Pool) roundTrip(ctx context.Context, q *outgoing, by borrower) (*http.Response, error) {
	c, kept, err := p.get(ctx, q.url)
	if err != nil {
		return nil, err
	}
	w := by.lent(c.conn, kept)
	b := &http1Body{conn: c, pool: p, ctx: ctx, stop: context.AfterFunc(ctx, c.interrupted)}
	// A server that hangs up while the request is written may have said why.
	unsent := p.send(b, q)
	response, err := c.receive(w)
	if err != nil {
		b.Close()
		b.writer.Wait() // how much of the request was written decides whether it may be sent again
		return nil, b.because(cmp.Or(unsent, err))
	}
	b.body, b.last = response.Body, p.fresh || response.Close || unsent != nil
	b.framing.reset(len(response.TransferEncoding) > 0, response.ContentLength)
	response.Body = b
	return response, nil
}

// interrupt ends what waits for the connection.
func (c *http1Conn) interrupt() { _ = c.SetDeadline(time.Unix(1, 0)) }

// get takes a connection that lies idle and still lives, or opens one.
func (p *http1Pool) get(ctx context.Context, u *url.URL) (c *http1Conn, kept bool, err error) {
	at := place{u.Scheme, u.Host}
	for range mostStale {
		c, waits := p.idle.take(at)
		if !waits {
			break
		}
		if c.quiet() {
			return c, true, nil
		}
		c.Close()
	}
	c, err = p.open(ctx, u)
	return c, false, err
}

// open makes a connection.
func (p *http1Pool) open(ctx context.Context, u *url.URL) (*http1Conn, error) {
	address, secure := p.dialer.toward(u)
	w, err := p.dialer.dial(ctx, address, secure)
	if err != nil {
		return nil, err
	}
	c := &http1Conn{conn: w, place: place{u.Scheme, u.Host}}
	c.interrupted, c.reader = c.interrupt, bufio.NewReaderSize(c, readBuffer)
	return c, nil
}

// quiet says whether a connection that lies idle is still open and nothing is left on it. TLS may have read ahead of
// what it gave out: it is asked while it can read no further.
func (c *http1Conn) quiet() bool {
	if !c.socket.quiet() {
		return false
	}
	if _, secure := c.Conn.(*tls.Conn); !secure {
		return true
	}
	_ = c.SetReadDeadline(time.Unix(1, 0)) // cannot fail
	_, err := c.Conn.Read(make([]byte, 1))
	_ = c.SetReadDeadline(time.Time{})
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// parts are buffers for what is written of a request at once.
var parts = sync.Pool{New: func() any { b := make([]byte, 0, writeBuffer); return &b }}

// send writes a request: a short one as a whole, in one system call and one packet. A long one goes out on a goroutine
// of its own, since the server may answer before it has read all of it.
func (p *http1Pool) send(b *http1Body, q *outgoing) error {
	part := parts.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	*part = p.appendHead((*part)[:0], q)
	if len(*part)+q.length <= writeBuffer {
		defer parts.Put(part)
		return writeParts(b.conn.conn, q.body, part)
	}
	if !p.dialer.enter() {
		return errClosed
	}
	c, wrote := b.conn.conn, make(chan struct{})
	b.wrote = wrote
	b.writer.Go(func() {
		defer p.dialer.dials.Done()
		defer parts.Put(part)
		if writeParts(c, q.body, part) == nil {
			close(wrote)
		}
	})
	return nil
}

// writeParts writes what the part holds and then the body behind it.
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
func (p *http1Pool) appendHead(dst []byte, q *outgoing) []byte {
	dst = append(append(dst, q.method...), ' ')
	proxy := p.dialer.proxy
	absolute := proxy != nil && q.url.Scheme == "http"
	if absolute {
		dst = append(append(dst, "http://"...), q.url.Host...)
	}
	dst = append(append(dst, q.url.RequestURI()...), " HTTP/1.1\r\n"...)
	dst = append(appendHeader(dst, "Host", cmp.Or(q.host, q.url.Host)), q.lines...)
	if q.id != "" {
		dst = appendHeader(dst, idHeader, q.id)
	}
	if absolute && proxy.header != "" {
		dst = appendHeader(dst, "Proxy-Authorization", proxy.header)
	}
	if p.fresh {
		dst = appendHeader(dst, "Connection", "close")
	}
	if q.body != nil {
		dst = append(dst, "Content-Length: "...)
		dst = append(strconv.AppendInt(dst, int64(q.length), 10), "\r\n"...)
	}
	return append(dst, "\r\n"...)
}

func appendHeader(dst []byte, name, value string) []byte {
	dst = append(append(dst, name...), ": "...)
	return append(append(dst, value...), "\r\n"...)
}

// receive waits for the response and reads its head.
func (c *http1Conn) receive(w *wire) (*http.Response, error) {
	c.headLeft = headLimit
	for range mostInformed {
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
			return nil, fmt.Errorf("the server goes over to another protocol, %.40q", response.Header.Get("Upgrade"))
		}
	}
	return nil, errNoEndOf1xx
}

// Read reads for the buffer, within the limit of a head while one is read.
func (c *http1Conn) Read(p []byte) (int, error) {
	if c.headLeft <= 0 {
		return 0, errHeadTooLong
	}
	n, err := c.conn.Read(p)
	c.headLeft -= int64(n)
	return n, err
}

// http1Body is the body of a response. It is either read, and then net/http finds it in what comes, or followed.
type http1Body struct {
	follower follower
	framing  framing
	left     bool  // the follower has left
	rest     int   // bytes that may come then
	failed   error // the body is none

	body   io.Reader
	conn   *http1Conn // nil: closed
	pool   *http1Pool
	ctx    context.Context // the request's
	stop   func() bool     // lets go of it
	wrote  chan struct{}   // closed when the whole request was written; nil: it is
	writer sync.WaitGroup  // the goroutine that writes it, if there is one
	last   bool            // the connection carries no further request
	whole  bool            // it was read to its end
}

// follower takes a body as it comes.
type follower interface {
	// take takes in a piece of the body, which it must not keep. It is false if it needs no more. It must not block,
	// nor use the connection.
	take(data []byte, by reading) (more bool)
	// drain is told when it has left and there is more of the body, which is read only so that the connection can be
	// kept. It returns how many bytes that may be.
	drain() int
}

// Read implements io.Reader.
func (b *http1Body) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err == nil {
		return n, nil
	}
	b.whole = b.whole || errors.Is(err, io.EOF)
	return n, b.because(err)
}

// follow gives the body to a follower, each piece with the read that brought it, and blocks until it has ended. Its
// error is io.EOF if it did in order. A follower that has left learns no more.
func (b *http1Body) follow(w *wire, f follower) error {
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
	return b.because(err)
}

// feed takes in what comes until that is enough, or nothing comes any more.
func (b *http1Body) feed(w *wire) error {
	c := b.conn
	for b.takeBuffered(w) {
		if c.Conn == net.Conn(c.socket) {
			return c.push(b.ctx, w, b)
		}
		if _, err := c.reader.Peek(1); err != nil {
			return err
		}
	}
	return nil
}

// takeBuffered takes in what the connection's buffer has. It is false if that was enough.
func (b *http1Body) takeBuffered(w *wire) (more bool) {
	r := b.conn.reader
	p, _ := r.Peek(r.Buffered()) // cannot fail
	more = b.take(p, b.conn.arrival(w))
	_, _ = r.Discard(len(p))
	return more
}

// take implements taker.
func (b *http1Body) take(p []byte, by reading) (more bool) {
	for !b.framing.whole {
		data, rest, err := b.framing.next(p)
		switch {
		case err != nil:
			b.failed = err
			return false
		case len(data) == 0 && len(rest) == 0 && !b.framing.whole:
			return true
		case len(data) > 0 && !b.give(data, by):
			return false
		}
		p = rest
	}
	b.last = b.last || len(p) > 0 // that is no answer to anything
	return false
}

// give hands on a piece of the body, unless the follower has left. It is false if too much has come since then.
func (b *http1Body) give(data []byte, by reading) bool {
	switch {
	case b.left:
		b.rest -= len(data)
	case !b.follower.take(data, by):
		b.left, b.rest = true, b.follower.drain()
	}
	return !b.left || b.rest > 0
}

// because is why the request failed: its context's error, if that has ended it.
func (b *http1Body) because(err error) error {
	if ended := b.ctx.Err(); ended != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return ended
	}
	return err
}

// Close gives the connection back if both the request and the response came to their end, and else closes it.
func (b *http1Body) Close() error {
	c := b.conn
	if c == nil {
		return nil
	}
	b.conn = nil
	if b.stop() && b.whole && !b.last && b.written() && c.reader.Buffered() == 0 {
		b.pool.idle.put(c.place, c)
		return nil
	}
	return c.Close()
}

// written says whether the whole request was written.
func (b *http1Body) written() bool {
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
