package wire

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"syscall"

	"golang.org/x/net/http2"
)

// http2Pool sends requests by HTTP/2, one at a time on each connection: streams that share a connection would share its
// timestamps and its packet losses. Idle connections are reused, the last used first.
type http2Pool struct {
	dialer    *dialer
	transport http2.Transport //nolint:staticcheck // net/http's own makes the connections itself
	alwaysNew bool            // each request opens a connection
	idle      idle[*http2Conn]
}

// http2Conn is a connection of the pool.
type http2Conn struct {
	*http2.ClientConn
	conn   *Conn
	origin origin
}

func newHTTP2Pool(d *dialer, alwaysNew bool) *http2Pool {
	p := &http2Pool{dialer: d, alwaysNew: alwaysNew}
	p.transport.DisableCompression = true     //nolint:staticcheck // as above
	p.transport.MaxHeaderListSize = headLimit //nolint:staticcheck // as above
	// The library may still count the previous stream when the next request takes the connection.
	p.transport.StrictMaxConcurrentStreams = true //nolint:staticcheck // as above
	return p
}

// roundTrip implements version.
func (p *http2Pool) roundTrip(ctx context.Context, q *Outgoing, user User) (*http.Response, error) {
	c, reused, err := p.get(ctx, q)
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
	}
	r := &http.Request{Method: q.Method, URL: q.URL, Host: q.Host, Header: headers, ContentLength: int64(q.Length)}
	if q.Body != nil {
		r.Body = q.Body
	}
	return r.WithContext(ctx)
}

// get returns an idle connection that is still open, or opens one.
func (p *http2Pool) get(ctx context.Context, q *Outgoing) (c *http2Conn, reused bool, err error) {
	at := originOf(q.URL)
	for !q.NewConn {
		c, ok := p.idle.take(at)
		if !ok {
			break
		}
		if c.CanTakeNewRequest() {
			return c, true, nil
		}
		c.Close()
	}
	c, err = p.open(ctx, q.URL)
	return c, false, err
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
	if b.whole && !b.pool.alwaysNew && b.conn.conn.sentAll() {
		b.pool.idle.put(b.conn.origin, b.conn)
	} else {
		b.conn.Close()
	}
	b.pool = nil
	return err
}
