package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"syscall"

	"golang.org/x/net/http2"

	"github.com/spate-load/spate/agent/stream/socket"
	"github.com/spate-load/spate/measure"
)

// http2Pool sends requests by HTTP/2, one at a time on each connection: streams that share a connection would share its
// timestamps and its packet losses. Idle connections are reused, the last used first.
type http2Pool struct {
	dialer    *dialer
	transport http2.Transport //nolint:staticcheck // net/http's own makes the connections itself
	idle      idle[*http2Conn]
}

// http2Conn is a connection of the pool.
type http2Conn struct {
	*http2.ClientConn
	conn   *Conn
	origin origin
}

func newHTTP2Pool(d *dialer) *http2Pool {
	p := &http2Pool{dialer: d}
	p.transport.DisableCompression = true     //nolint:staticcheck // as above
	p.transport.MaxHeaderListSize = headLimit //nolint:staticcheck // as above
	// The library may still count the previous stream when the next request takes the connection.
	p.transport.StrictMaxConcurrentStreams = true //nolint:staticcheck // as above
	return p
}

// roundTrip implements version.
func (p *http2Pool) roundTrip(ctx context.Context, q *Outgoing, user User) (*http.Response, error) {
	c, reused, err := p.idle.get(ctx, q, (*http2Conn).CanTakeNewRequest, p.open)
	if err != nil {
		return nil, err
	}
	w := user.GotConn(c.conn, reused)
	// The trace is called on a goroutine of the library, perhaps after the request has failed.
	ctx = httptrace.WithClientTrace(ctx,
		&httptrace.ClientTrace{GotFirstResponseByte: func() { c.conn.gotFirstByte(w) }})
	response, err := c.RoundTrip(q.request(ctx))
	if err != nil {
		c.Close()
		return nil, err
	}
	response.Body = &http2Body{ReadCloser: response.Body, conn: c, pool: p}
	return response, nil
}

// request returns the request for the library. It has no GetBody, so that the library cannot send it twice.
func (q *Outgoing) request(ctx context.Context) *http.Request {
	headers := q.Headers
	if q.ID != "" {
		headers = maps.Clone(headers)
		headers[idHeader] = []string{q.ID}
		if q.Traced {
			headers["Traceparent"] = []string{string(measure.AppendTraceparent(nil, q.ID))}
		}
	}
	r := &http.Request{Method: q.Method, URL: q.URL, Host: q.Host, Header: headers, Body: q.Body,
		ContentLength: int64(q.Length)}
	return r.WithContext(ctx)
}

// open dials a new connection.
func (p *http2Pool) open(ctx context.Context, u *url.URL) (*http2Conn, error) {
	w, err := p.dialer.dial(ctx, u)
	if err != nil {
		return nil, err
	}
	c, err := p.transport.NewClientConn(w) //nolint:staticcheck // net/http's own makes the connections itself
	if err != nil {
		w.Close()
		return nil, err
	}
	return &http2Conn{ClientConn: c, conn: w, origin: originOf(u)}, nil
}

// check implements version: it also checks that the endpoint speaks HTTP/2.
func (p *http2Pool) check(ctx context.Context, u *url.URL) error {
	c, err := p.open(ctx, u)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, p.dialer.timeout)
	defer cancel()
	if err := c.Ping(ctx); err != nil {
		if c.conn.OtherHTTPError() != nil || errors.Is(err, context.DeadlineExceeded) {
			return errNoHTTP2
		}
		ends := []error{io.EOF, syscall.ECONNRESET, syscall.EPIPE}
		if slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) }) {
			return errNoneInHTTP2
		}
		return err
	}
	return nil
}

// http2Body is the body of a response. Each of its Reads returns bytes of only one read of the connection.
type http2Body struct {
	io.ReadCloser
	conn  *http2Conn
	pool  *http2Pool
	whole bool
}

// Read implements io.Reader.
func (b *http2Body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), b.conn.conn.readLimit())])
	b.conn.conn.countReturned(n)
	b.whole = b.whole || errors.Is(err, io.EOF)
	return n, err
}

// Close returns the connection to the pool if both request and response are complete, else closes it.
func (b *http2Body) Close() error {
	err := b.ReadCloser.Close()
	if b.pool == nil {
		return err
	}
	if b.whole && !b.pool.dialer.alwaysNew && b.conn.conn.sentAll() {
		b.pool.idle.put(b.conn.origin, b.conn)
	} else {
		b.conn.Close()
	}
	b.pool = nil
	return err
}

// HTTP/2 frame constants that are needed here (RFC 9113, 4.1 and 6).
const (
	frameHead         = 9
	frameData         = 0x0
	frameHeaders      = 0x1
	frameSettings     = 0x4
	frameContinuation = 0x9
	flagEndStream     = 0x1
	flagPadded        = 0x8
	prefaceLength     = 24 // of a client's connection preface, which precedes its first frame
)

// frameScanner parses the frames of one direction of a connection, in pieces of any size.
type frameScanner struct {
	skip int // bytes to skip before the first frame
	head [frameHead]byte
	have int // bytes of head read
	left int // bytes of the payload left
	pad  int // padding at the payload's end; -1: its length comes next
}

// scanned is what some bytes contained.
type scanned struct {
	data    int  // bytes of bodies, without padding
	message bool // a part of a DATA, HEADERS or CONTINUATION frame
	ended   bool // the end of a frame with END_STREAM
}

// scan parses the next bytes.
func (s *frameScanner) scan(p []byte) (in scanned) {
	for len(p) > 0 {
		var n int
		switch {
		case s.skip > 0:
			n = min(s.skip, len(p))
			s.skip -= n
		case s.have < frameHead:
			n = copy(s.head[s.have:], p)
			if s.have += n; s.have == frameHead {
				s.begin()
				s.endIfDone(&in)
			}
		default:
			n = s.payload(p, &in)
			s.endIfDone(&in)
		}
		p = p[n:]
	}
	return in
}

// begin parses the head of a frame.
func (s *frameScanner) begin() {
	s.left, s.pad = int(binary.BigEndian.Uint32(s.head[:4])>>8), 0
	if s.kind() == frameData && s.head[4]&flagPadded != 0 && s.left > 0 {
		s.pad = -1
	}
}

func (s *frameScanner) kind() byte { return s.head[3] }

// payload parses bytes of a frame after its head, and returns how many it consumed.
func (s *frameScanner) payload(p []byte, in *scanned) int {
	if s.pad < 0 {
		s.left--
		s.pad = min(int(p[0]), s.left)
		return 1
	}
	n := min(s.left, len(p))
	if s.kind() == frameData {
		in.data += min(n, max(s.left-s.pad, 0))
	}
	s.left -= n
	return n
}

// endIfDone handles the end of a frame if the frame is complete.
func (s *frameScanner) endIfDone(in *scanned) {
	message := s.kind() == frameData || s.kind() == frameHeaders || s.kind() == frameContinuation
	if message {
		in.message = true
	}
	if s.left > 0 {
		return
	}
	s.have = 0
	if message && s.kind() != frameContinuation && s.head[4]&flagEndStream != 0 {
		in.ended = true
	}
}

// http2Frames tracks the frames on an HTTP/2 connection. The library that parses them reads ahead on its own goroutine,
// so the bytes that a body returns need not be from the last read. Each read is therefore marked with the number of
// body bytes received so far, and the body returns no bytes beyond the next mark.
type http2Frames struct {
	in, out  frameScanner
	marks    []mark         // of reads whose bytes the body has not all returned yet
	first    int            // index of the first mark left
	received int64          // bytes of the body received
	returned int64          // bytes that the body has returned
	sent     bool           // the request was sent to its end
	last     socket.Reading // the read that brought the last byte returned
}

// newHTTP2Frames returns the frames of a new connection.
func newHTTP2Frames() *http2Frames { return &http2Frames{out: frameScanner{skip: prefaceLength}} }

// mark records that bytes of the body up to end came with a read or before it.
type mark struct {
	end int64
	by  socket.Reading
}

// reset prepares for a request.
func (f *http2Frames) reset() {
	*f = http2Frames{in: f.in, out: f.out, marks: f.marks[:0]}
}

// arrived parses the bytes of a read and marks it.
func (f *http2Frames) arrived(p []byte, by socket.Reading) {
	data := f.in.scan(p).data
	if data == 0 {
		return
	}
	if f.first == len(f.marks) {
		f.marks, f.first = f.marks[:0], 0
	}
	f.received += int64(data)
	f.marks = append(f.marks, mark{f.received, by})
}

// readLimit returns how many bytes the next Read of the body may return: those up to the next mark, or one byte if
// nothing has been received yet.
func (f *http2Frames) readLimit() int {
	if f.first == len(f.marks) {
		return 1
	}
	return int(f.marks[f.first].end - f.returned)
}

// countReturned records that the body returned n bytes, at most as many as readLimit allowed.
func (f *http2Frames) countReturned(n int) {
	if n == 0 || f.first == len(f.marks) {
		return
	}
	f.returned += int64(n)
	f.last = f.marks[f.first].by
	if f.returned >= f.marks[f.first].end {
		f.first++
	}
}
