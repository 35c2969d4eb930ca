package stream

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/spate-load/spate/agent/stream/wire"
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
		x.conn.EndRequest(x.io)
		x.payload.drop()
	}
}

// attempt sends the request on one connection.
func (x *exchange) attempt(r Request) (*http.Response, error) {
	c := x.client
	x.conn, x.io = nil, nil
	x.payload = &payload{left: r.Body}
	q := &wire.Outgoing{
		Method: http.MethodPost, URL: c.endpoints[r.Endpoint], Host: c.host, ID: r.ID, Headers: c.headers,
		Lines: c.lines,
		Body:  x.payload, Length: len(r.Body),
	}
	if err := c.signed(q, r.Body); err != nil {
		return nil, err
	}
	return c.send(x.ctx, q, x)
}

// signed signs a request with a body, if the API and its key want that.
func (c *Client) signed(q *wire.Outgoing, body []byte) error {
	if c.sign == nil {
		return nil
	}
	u := *q.URL // the signer may change it
	r := &http.Request{Method: q.Method, URL: &u, Host: cmp.Or(q.Host, u.Host), Header: q.Headers.Clone(),
		ContentLength: int64(q.Length)}
	if err := c.sign(r, body, time.Now()); err != nil {
		return fmt.Errorf("sign the request: %w", err)
	}
	q.Host, q.Headers, q.Lines = r.Host, r.Header, wire.LinesOf(r.Header)
	return nil
}

// GotConn implements wire.User.
func (x *exchange) GotConn(c *wire.Conn, reused bool) *wire.RequestIO {
	x.conn, x.io, x.reused = c, new(wire.RequestIO), reused
	c.StartRequest(x.io)
	if x.watch != nil {
		x.watch.conn.Store(c)
	}
	return x.io
}

// untouched reports whether the request failed on a kept connection before any byte of it was written.
func (x *exchange) untouched() bool {
	return x.conn != nil && x.reused && x.ctx.Err() == nil && x.conn.StateOf(x.io).Written == 0
}
