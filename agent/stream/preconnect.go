package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"net/url"
	"os"
	"time"
)

// Preconnect opens a connection to an endpoint, through a proxy and with TLS if need be, and leaves it idle for a
// request to come. It opens none if each request has a connection of its own. The first request on the connection tells
// how long opening it took (Observation.Connected), as if it had opened it. An error means that there is no connection
// more than before; the request will open its own, and tell what is wrong.
//
// It blocks until the connection stands, for no longer than the connect timeout, and may be called concurrently. With
// TLS 1.3 the connection is there for requests only after ticketTime and two round trips: see takeTickets.
func (c *Client) Preconnect(ctx context.Context, endpoint int) error {
	return c.pool.preconnect(ctx, c.endpoints[endpoint])
}

// preconnect implements pool.
func (p *http1Pool) preconnect(ctx context.Context, u *url.URL) error {
	if p.fresh {
		return nil
	}
	c, err := p.open(ctx, u)
	if err != nil {
		return err
	}
	t, secure := c.Conn.(*tls.Conn)
	if !secure || t.ConnectionState().Version < tls.VersionTLS13 {
		p.idle.put(c.place, c)
		return nil
	}
	if !p.dialer.enter() {
		return errClosed
	}
	go func() {
		defer p.dialer.dials.Done()
		if c.takeTickets(t) {
			p.idle.put(c.place, c)
		} else {
			c.Close()
		}
	}()
	return nil
}

// ticketTime is how long a server's tickets are waited for, beside two round trips: longer than the 40 ms for which
// this side may hold back its acknowledgement of the first ticket, and the server the second one until then (Nagle's
// algorithm).
const ticketTime = 60 * time.Millisecond

// takeTickets reads what a TLS 1.3 server sends behind the handshake without being asked: tickets for later sessions.
// OpenSSL sends two. Left unread, they would look like an answer to nothing, and the connection like one that cannot be
// used. It reports whether nothing else came.
func (c *http1Conn) takeTickets(t *tls.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(2*c.rtt + ticketTime)) // cannot fail
	_, err := t.Read(make([]byte, 1))
	_ = c.SetReadDeadline(time.Time{})
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// preconnect implements pool.
func (p *http2Pool) preconnect(ctx context.Context, u *url.URL) error {
	if p.fresh {
		return nil
	}
	c, err := p.open(ctx, dialAddress(u), u.Scheme == "https")
	if err != nil {
		return err
	}
	p.idle.put(c.address, c)
	return nil
}
