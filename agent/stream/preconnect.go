package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"net/url"
	"os"
	"time"

	"github.com/spate-load/spate/agent/stream/socket"
)

// Preconnect opens a connection to an endpoint, through the proxy and with TLS if configured, and leaves it idle for a
// later request. It does nothing if each request opens a connection. The first request on the connection reports how
// long opening it took (Observation.Connected), as if it had opened it. After an error there is no additional
// connection; a later request opens its own, and reports what is wrong.
//
// Preconnect blocks until the connection is open, for at most the connect timeout. It is safe for concurrent use. With
// TLS 1.3, requests can use the connection only after ticketTime plus two round trips: see takeTickets.
func (c *Client) Preconnect(ctx context.Context, endpoint int) error {
	return c.pool.preconnect(ctx, c.endpoints[endpoint])
}

// preconnect implements pool.
func (p *http1Pool) preconnect(ctx context.Context, u *url.URL) error {
	if p.alwaysNew {
		return nil
	}
	c, err := p.open(ctx, u)
	if err != nil {
		return err
	}
	t, secure := c.Conn.(*tls.Conn)
	if !secure || t.ConnectionState().Version < tls.VersionTLS13 {
		p.idle.put(c.origin, c)
		return nil
	}
	if !p.dialer.enter() {
		return socket.ErrClosed
	}
	go func() {
		defer p.dialer.dials.Done()
		if c.takeTickets(t) {
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
func (c *http1Conn) takeTickets(t *tls.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(2*c.rtt + ticketTime)) // cannot fail
	_, err := t.Read(make([]byte, 1))
	_ = c.SetReadDeadline(time.Time{})
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// preconnect implements pool.
func (p *http2Pool) preconnect(ctx context.Context, u *url.URL) error {
	if p.alwaysNew {
		return nil
	}
	c, err := p.open(ctx, dialAddress(u), u.Scheme == "https")
	if err != nil {
		return err
	}
	p.idle.put(c.address, c)
	return nil
}
