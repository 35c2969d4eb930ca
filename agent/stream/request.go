package stream

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// payload is a request's body while it is being sent. A pool may still read it after the response has ended, when the
// memory belongs to the caller again.
type payload struct {
	mu   sync.Mutex
	left []byte
}

// Read implements io.Reader. After drop it returns io.EOF.
func (p *payload) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.left)
	p.left = p.left[n:]
	return n, nil
}

// Close implements io.Closer, by drop.
func (p *payload) Close() error {
	p.drop()
	return nil
}

// drop releases the memory and reports whether all of it had been read.
func (p *payload) drop() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := len(p.left) == 0
	p.left = nil
	return all
}

// outgoing is a request as it is passed to a pool of connections.
type outgoing struct {
	method  string
	url     *url.URL
	host    string // Host header; empty: the URL's host
	id      string // sent as X-Request-Id; empty: not sent
	headers http.Header
	lines   []byte        // the headers in HTTP/1.1's wire form
	body    io.ReadCloser // nil: none. It may still be read after the response has ended.
	length  int
}

// pool sends requests, one at a time on each connection.
type pool interface {
	// roundTrip sends a request and blocks until it has the head of the response. It calls user.gotConn as soon as it
	// has a connection. The caller closes the response's body.
	roundTrip(ctx context.Context, q *outgoing, user connUser) (*http.Response, error)
	// preconnect opens a connection and leaves it idle in the pool. It does nothing if each request opens a connection.
	preconnect(ctx context.Context, u *url.URL) error
}

// connUser is told which connection a request uses.
type connUser interface {
	// gotConn starts the request on c and returns what c records in. reused: c had been used before.
	gotConn(c *conn, reused bool) *requestIO
}

// linesOf returns headers in HTTP/1.1's wire form.
func linesOf(h http.Header) []byte {
	var b bytes.Buffer
	_ = h.Write(&b) // a buffer does not fail
	return b.Bytes()
}

// roundTrip sends the request and blocks until it has the head of the response.
//
// A request is sent once. But the server may have closed a kept connection while it was idle, which may be found out
// only when a request takes the connection. Then no byte of the request was written, no server has seen it, and it is
// sent on another connection. The connection's own count of written bytes decides that, not the kind of error. Once a
// byte has been written on a connection that then ends, the request has failed, on a kept connection too: the server
// may have worked on it.
func (x *exchange) roundTrip(r Request) (*http.Response, error) {
	for {
		response, err := x.attempt(r)
		if err == nil || !x.untouched() {
			return response, err
		}
		x.conn.endRequest(x.io)
		x.payload.drop()
	}
}

// attempt sends the request on one connection.
func (x *exchange) attempt(r Request) (*http.Response, error) {
	c := x.client
	x.conn, x.io = nil, nil
	x.payload = &payload{left: r.Body}
	q := &outgoing{
		method: http.MethodPost, url: c.endpoints[r.Endpoint], host: c.host, id: r.ID, headers: c.headers,
		lines: c.lines,
		body:  x.payload, length: len(r.Body),
	}
	if err := c.signed(q, r.Body); err != nil {
		return nil, err
	}
	return c.pool.roundTrip(x.ctx, q, x)
}

// signed signs a request with a body, if the API and its key want that.
func (c *Client) signed(q *outgoing, body []byte) error {
	if c.sign == nil {
		return nil
	}
	u := *q.url // the signer may change it
	r := &http.Request{Method: q.method, URL: &u, Host: cmp.Or(q.host, u.Host), Header: q.headers.Clone(),
		ContentLength: int64(q.length)}
	if err := c.sign(r, body, time.Now()); err != nil {
		return fmt.Errorf("sign the request: %w", err)
	}
	q.host, q.headers, q.lines = r.Host, r.Header, linesOf(r.Header)
	return nil
}

// gotConn implements connUser.
func (x *exchange) gotConn(c *conn, reused bool) *requestIO {
	x.conn, x.io, x.reused = c, new(requestIO), reused
	c.startRequest(x.io)
	if x.watch != nil {
		x.watch.conn.Store(c)
	}
	return x.io
}

// untouched reports whether the request failed on a kept connection before any byte of it was written.
func (x *exchange) untouched() bool {
	return x.conn != nil && x.reused && x.ctx.Err() == nil && x.conn.stateOf(x.io).written == 0
}
