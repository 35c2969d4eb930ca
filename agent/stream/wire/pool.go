// Package wire sends requests to a target by HTTP/1.1 or HTTP/2, on timestamped connections that it opens and keeps,
// with TLS and through a proxy if configured. It records when the bytes of each request and of its response passed.
package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/spate-load/spate/agent/stream/socket"
)

// Outgoing is a request as it is passed to a Pool.
type Outgoing struct {
	Method  string
	URL     *url.URL
	Host    string // Host header; empty: the URL's host
	ID      string // sent as X-Request-Id; empty: not sent
	Traced  bool   // with an ID: a traceparent is sent, too
	Headers http.Header
	Lines   []byte        // the headers as LinesOf returns them
	Body    io.ReadCloser // nil: none. It may still be read after the response has ended.
	Length  int           // of the body, in bytes
	NewConn bool          // it opens a connection even if one is idle
}

// LinesOf returns headers in HTTP/1.1's wire form.
func LinesOf(h http.Header) []byte {
	var b bytes.Buffer
	_ = h.Write(&b) // a buffer does not fail
	return b.Bytes()
}

// User is told which connection a request uses.
type User interface {
	// GotConn starts the request on c and returns what c records in. reused: c had been used before.
	GotConn(c *Conn, reused bool) *RequestIO
}

// Pool sends requests to a target, one at a time on each connection, on connections that it opens and keeps. It is safe
// for concurrent use.
type Pool struct {
	dialer *dialer
	http   version
}

// version is a version of HTTP.
type version interface {
	roundTrip(ctx context.Context, q *Outgoing, user User) (*http.Response, error)
	preconnect(ctx context.Context, u *url.URL) error
	// check opens a connection and closes it.
	check(ctx context.Context, u *url.URL) error
}

// NewPool returns a pool that has no connection yet. connectTimeout is the longest wait for DNS, TCP and TLS together.
// base is the TLS configuration that the settings are added to; it belongs to the pool from now on. NewPool fails if
// the settings contradict each other, or if a certificate or the proxy's address cannot be parsed. The caller closes
// the pool.
func NewPool(s *Settings, connectTimeout time.Duration, base *tls.Config) (*Pool, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if err := s.secure(base); err != nil {
		return nil, err
	}
	proxy, err := proxyOf(s)
	if err != nil {
		return nil, err
	}
	d := newDialer(connectTimeout, base, s, proxy)
	if s.HTTP2 {
		return &Pool{d, newHTTP2Pool(d)}, nil
	}
	return &Pool{d, &http1Pool{dialer: d}}, nil
}

// RoundTrip sends a request and blocks until it has the head of the response. It calls user.GotConn as soon as it has a
// connection. It fails with a DialError if it could not open one. The caller closes the response's body.
func (p *Pool) RoundTrip(ctx context.Context, q *Outgoing, user User) (*http.Response, error) {
	return p.http.roundTrip(ctx, q, user)
}

// Preconnect opens a connection to a URL's host, through the proxy and with TLS if configured, and leaves it idle for a
// later request. It does nothing if each request opens a connection. It blocks until the connection is open, for at
// most the connect timeout. With TLS 1.3, requests can use the connection only after ticketTime plus two round trips:
// see takeTickets.
func (p *Pool) Preconnect(ctx context.Context, u *url.URL) error {
	if p.dialer.alwaysNew {
		return nil
	}
	return p.http.preconnect(ctx, u)
}

// Check opens a connection to a URL's host, TLS included, and closes it. It blocks for at most the connect timeout,
// twice that for HTTP/2, where the host must answer a ping. It fails with a DialError if there is no connection.
func (p *Pool) Check(ctx context.Context, u *url.URL) error { return p.http.check(ctx, u) }

// Close closes all connections and blocks until no connection is being opened. Requests in flight fail.
func (p *Pool) Close() { p.dialer.close() }

// Protocol returns the version of HTTP in use, "HTTP/1.1" or "HTTP/2".
func (p *Pool) Protocol() string {
	if p.dialer.http2 {
		return "HTTP/2"
	}
	return "HTTP/1.1"
}

// Status returns the status of a response for an error message. For a proxy's 407 it says what to do.
func (p *Pool) Status(r *http.Response) string {
	if proxy := p.dialer.proxy; proxy != nil && r.StatusCode == http.StatusProxyAuthRequired {
		return proxy.unauthorised().Error()
	}
	return r.Status
}

// origin is where a connection leads.
type origin struct{ scheme, host string }

func originOf(u *url.URL) origin { return origin{u.Scheme, u.Host} }

// idle holds the idle connections of a pool by where they lead. The one used last is taken first. It is safe for
// concurrent use. The zero value is ready for use.
type idle[C io.Closer] struct {
	mu    sync.Mutex
	conns map[origin][]C
}

// take removes and returns an idle connection. False: there is none.
func (i *idle[C]) take(to origin) (c C, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	conns := i.conns[to]
	n := len(conns) - 1
	if n < 0 {
		return c, false
	}
	i.conns[to] = conns[:n]
	return conns[n], true
}

// maxStale is how many idle connections that have ended a request may close before it opens a new one.
const maxStale = 4

// get returns an idle connection that is still usable, or opens one.
func (i *idle[C]) get(
	ctx context.Context, q *Outgoing, usable func(C) bool, open func(context.Context, *url.URL) (C, error),
) (c C, reused bool, err error) {
	for n := 0; n < maxStale && !q.NewConn; n++ {
		c, ok := i.take(originOf(q.URL))
		if !ok {
			break
		}
		if usable(c) {
			return c, true, nil
		}
		c.Close()
	}
	c, err = open(ctx, q.URL)
	return c, false, err
}

// put adds an idle connection.
func (i *idle[C]) put(to origin, c C) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.conns == nil {
		i.conns = make(map[origin][]C)
	}
	i.conns[to] = append(i.conns[to], c)
}

// preconnect implements version.
func (p *http1Pool) preconnect(ctx context.Context, u *url.URL) error {
	c, err := p.open(ctx, u)
	if err != nil {
		return err
	}
	if t, secure := c.Conn.Conn.(*tls.Conn); !secure || t.ConnectionState().Version < tls.VersionTLS13 {
		p.idle.put(c.origin, c)
		return nil
	}
	if !p.dialer.enter() {
		return socket.ErrClosed
	}
	go func() {
		defer p.dialer.dials.Done()
		if c.takeTickets() {
			p.idle.put(c.origin, c)
		} else {
			c.Close()
		}
	}()
	return nil
}

// ticketTime is how long to wait for a server's tickets, in addition to two round trips. It is longer than 40 ms: this
// machine may delay its acknowledgement of the first ticket by that long, and the server may hold back the second
// ticket until then (Nagle's algorithm).
const ticketTime = 60 * time.Millisecond

// takeTickets reads the session tickets that a TLS 1.3 server sends unasked after the handshake. OpenSSL sends two.
// Left unread, they would make the connection look unusable, like one with bytes that answer no request. takeTickets
// reports whether nothing else came.
func (c *http1Conn) takeTickets() bool { return c.silentUntil(time.Now().Add(2*c.rtt + ticketTime)) }

// preconnect implements version.
func (p *http2Pool) preconnect(ctx context.Context, u *url.URL) error {
	c, err := p.open(ctx, u)
	if err != nil {
		return err
	}
	p.idle.put(c.origin, c)
	return nil
}
