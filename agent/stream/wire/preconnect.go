package wire

import (
	"context"
	"crypto/tls"
	"net/url"
	"time"

	"github.com/spate-load/spate/agent/stream/socket"
)

// preconnect implements version.
func (p *http1Pool) preconnect(ctx context.Context, u *url.URL) error {
	if p.alwaysNew {
		return nil
	}
	c, err := p.open(ctx, u)
	if err != nil {
		return err
	}
	t, secure := c.Conn.Conn.(*tls.Conn)
	if !secure || t.ConnectionState().Version < tls.VersionTLS13 {
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
	if p.alwaysNew {
		return nil
	}
	c, err := p.open(ctx, u)
	if err != nil {
		return err
	}
	p.idle.put(c.origin, c)
	return nil
}
