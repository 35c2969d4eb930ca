package stream

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"sync"
)

// payload is a request's body on its way out. A pool may go on reading it after the response has ended; the memory is
// the caller's again by then.
type payload struct {
	mu   sync.Mutex
	left []byte
}

// Read gives out what is left.
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

// Close lets go of the memory.
func (p *payload) Close() error {
	p.drop()
	return nil
}

// drop lets go of the memory and says whether all of it had been read.
func (p *payload) drop() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := len(p.left) == 0
	p.left = nil
	return all
}

// outgoing is a request as it goes to a pool of connections.
type outgoing struct {
	method  string
	url     *url.URL
	host    string // to ask for; empty: the URL's
	id      string // sent as X-Request-Id; empty: not sent
	headers http.Header
	lines   []byte        // the headers as HTTP/1.1 has them
	body    io.ReadCloser // nil: none. It may be read on after the response has ended.
	length  int
}

// pool sends requests, one at a time on each connection.
type pool interface {
	// roundTrip sends a request and waits for the head of the response. It tells by which connection, as soon as it has
	// one. The caller closes the response's body.
	roundTrip(ctx context.Context, q *outgoing, by borrower) (*http.Response, error)
	// preconnect opens a connection and lets it lie idle. It opens none if each request has a connection of its own.
	preconnect(ctx context.Context, u *url.URL) error
}

// borrower is told of the connection that a request goes by.
type borrower interface {
	// lent returns where the connection is to take down what the request does. kept: it had been used before.
	lent(c *conn, kept bool) *wire
}

// linesOf are headers as HTTP/1.1 has them.
func linesOf(h http.Header) []byte {
	var b bytes.Buffer
	_ = h.Write(&b) // a buffer takes everything
	return b.Bytes()
}

// roundTrip sends the request and waits for the head of the response.
//
// A request is sent once. But a kept connection may have been closed by the server while it lay idle, and only be found
// closed when the request takes it; then not one byte of the request was written, no server has seen it, and it takes
// another connection. The connections' own count of bytes decides, not what kind of error net/http made of it. A
// request of which a byte was written on a connection that then ends has failed, kept connection or not: the server may
// have worked on it.
func (x *exchange) roundTrip(r Request) (*http.Response, error) {
	for {
		response, err := x.attempt(r)
		if err == nil || !x.untouched() {
			return response, err
		}
		x.conn.take(x.wire)
		x.payload.drop()
	}
}

// attempt sends the request on one connection.
func (x *exchange) attempt(r Request) (*http.Response, error) {
	c := x.client
	x.conn, x.wire = nil, nil
	x.payload = &payload{left: r.Body}
	response, err := c.pool.roundTrip(x.ctx, &outgoing{
		method: http.MethodPost, url: c.endpoints[r.Endpoint], host: c.host, id: r.ID, headers: c.headers,
		lines: c.lines,
		body:  x.payload, length: len(r.Body),
	}, x)
	return response, err
}

// lent implements borrower.
func (x *exchange) lent(c *conn, kept bool) *wire {
	x.conn, x.wire, x.kept = c, new(wire), kept
	c.lend(x.wire)
	if x.watch != nil {
		x.watch.conn.Store(c)
	}
	return x.wire
}

// untouched says whether the request failed on a kept connection before any byte of it was written.
func (x *exchange) untouched() bool {
	return x.conn != nil && x.kept && x.ctx.Err() == nil && x.conn.record(x.wire).written == 0
}
