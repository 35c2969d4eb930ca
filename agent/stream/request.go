package stream

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"sync"
)

// payload is a request's body on its way out. net/http may go on reading it after the response has ended; the memory is the
// caller's again by then.
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

// request makes the HTTP request. It has no GetBody, so net/http cannot send it twice.
func (c *Client) request(ctx context.Context, r Request) (*http.Request, *payload) {
	body := &payload{left: r.Body}
	headers := c.headers
	if r.ID != "" {
		headers = maps.Clone(headers)
		headers["X-Request-Id"] = []string{r.ID}
	}
	u := c.endpoints[r.Endpoint]
	q := &http.Request{
		Method: http.MethodPost, URL: u, Host: c.host, Header: headers,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: body, ContentLength: int64(len(r.Body)),
	}
	return q.WithContext(ctx), body
}

// roundTrip sends the request and waits for the head of the response.
//
// A request is sent once. But a kept connection may have been closed by the server while it lay idle, and only be found
// closed when the request takes it; then not one byte of the request was written, no server has seen it, and it takes another
// connection. The connections' own count of bytes decides, not what kind of error net/http made of it. A request of which a
// byte was written on a connection that then ends has failed, kept connection or not: the server may have worked on it.
func (x *exchange) roundTrip(r Request) (*http.Response, error) {
	for {
		response, err := x.attempt(r)
		if err == nil || !x.untouched() {
			return response, err
		}
		x.conn.take(x.wire)
	}
}

// attempt sends the request on one connection.
func (x *exchange) attempt(r Request) (*http.Response, error) {
	var c *conn
	w := &wire{hold: len(r.Body) > 0}
	trace := &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			c = info.Conn.(*conn) //nolint:forcetypeassert // our DialContext makes nothing else
			c.lend(w)
			if x.watch != nil {
				x.watch.conn.Store(c)
			}
			x.kept = info.Reused
		},
		// On a goroutine of net/http's, perhaps after the request has failed.
		GotFirstResponseByte: func() { c.gotFirstByte(w) },
	}
	request, body := x.client.request(httptrace.WithClientTrace(x.ctx, trace), r)
	x.payload = body
	response, err := x.client.transport.RoundTrip(request)
	x.conn, x.wire = c, w
	if err == nil {
		c.beginBody(w, len(response.TransferEncoding) > 0)
	}
	return response, err
}

// untouched says whether the request failed on a kept connection before any byte of it was written.
func (x *exchange) untouched() bool {
	return x.conn != nil && x.kept && x.ctx.Err() == nil && x.conn.record(x.wire).written == 0
}
