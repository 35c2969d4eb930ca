package stream

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/api"
)

// BodyHash returns the hash of a request's body that its row has: FNV-1a.
func BodyHash(body []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(body) // never fails
	return h.Sum64()
}

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
// A server may have closed a kept connection while it was idle, which may be found out only when a request takes the
// connection. If no byte of the request was written, no server has seen it, and it is sent on another connection. If
// some were written, the server may or may not have read them; as long as no byte of an answer has come, the request is
// sent once more, on a new connection, and that is told (Observation.Reconnected). The connection's own record decides,
// not the kind of error. On a new connection a request is sent once.
func (x *exchange) roundTrip(r Request) (*http.Response, error) {
	for {
		response, err := x.attempt(r)
		if err == nil || !x.reused || x.ctx.Err() != nil {
			return response, err
		}
		switch w := x.conn.StateOf(x.io); {
		case w.Written == 0:
		case w.FirstByte == 0 && w.Broken:
			x.o.Reconnected = true
		default:
			return nil, err
		}
		x.conn.EndRequest(x.io)
		x.payload.drop()
	}
}

// attempt sends the request on one connection.
func (x *exchange) attempt(r Request) (*http.Response, error) {
	c := x.client
	x.conn, x.io, x.reused = nil, nil, false
	x.payload = &payload{left: r.Body}
	q := &wire.Outgoing{
		Method: http.MethodPost, URL: c.endpoints[r.Endpoint], Host: c.host, ID: r.ID,
		Traced: c.traced && len(r.ID) >= 32, Headers: c.headers,
		Lines: c.lines,
		Body:  x.payload, Length: len(r.Body), NewConn: x.o.Reconnected,
	}
	return c.send(x.ctx, q, x)
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

// endpointOf parses a base URL and adds the API's path for a model, unless the URL ends in it. The path begins with the
// API's version, unless the URL has one (/v3, /v1beta/openai) or a query (Azure's api-version).
func endpointOf(base string, a *api.API, model string) (*url.URL, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, errors.New("not a valid URL") // url.Parse's own error would show a password
	}
	switch {
	case u.User != nil:
		return nil, fmt.Errorf("%s contains a password: send it as a header instead", u.Redacted())
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%s does not start with http:// or https://", u)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%s has no host", u)
	}
	prefix := strings.TrimRight(u.EscapedPath(), "/")
	path := a.PathFor(model)
	switch base, whole := strings.CutSuffix(prefix, path); {
	case whole:
		prefix = base
	case a.Version == "":
		prefix = strings.TrimSuffix(strings.TrimSuffix(prefix, "/v1"), "/v2") // which people write behind any address
	case u.RawQuery == "" && api.Versioned(prefix) < 0:
		prefix += a.Version
	}
	u.Fragment = ""
	if a.Query != "" {
		u.RawQuery = a.Query
	}
	if u.Path, err = url.PathUnescape(prefix + path); err != nil {
		return nil, fmt.Errorf("%s has an invalid path", u)
	}
	u.RawPath = prefix + path
	return u, nil
}

// headersOf returns the headers of every request, and the Host header if the plan sets one. endpoint is the first
// one.
func headersOf(c Config, a *api.API, endpoint *url.URL) (h http.Header, host string, err error) {
	h = http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"text/event-stream"},
		"User-Agent":   {"spate"},
	}
	if !httpguts.ValidHeaderFieldValue(c.APIKey) {
		return nil, "", errors.New("the API key contains a line break or another control character: remove it")
	}
	if a.Whole {
		h.Set("Accept", "application/json")
	}
	for name, value := range a.Headers {
		h.Set(name, value)
	}
	a.SetKey(h, c.APIKey, endpoint)
	for name, value := range c.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, "", fmt.Errorf("header %q: the name or value contains a character not allowed in headers", name)
		}
		if strings.EqualFold(name, "Host") {
			host = value
			continue
		}
		h[http.CanonicalHeaderKey(name)] = []string{value}
	}
	if h.Get("Traceparent") == "" {
		h.Del("Traceparent")
	}
	return h, host, nil
}
