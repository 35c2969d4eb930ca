package web

import (
	"net"
	"net/http"
	"sync"

	"github.com/spate-load/spate/coordinator/access"
)

// Bounds on what one viewer can ask for: a quarter of what all can. Behind a proxy all viewers without a token are one.
const (
	viewerConnections = maxConnections / 4
	viewerStreams     = maxStreams / 4
)

// viewers counts what each viewer holds.
type viewers struct {
	mu   sync.Mutex
	held map[string]int
}

// take counts one more for a viewer, and reports whether there may be one more. The caller calls give if so.
func (v *viewers) take(viewer string, most int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held[viewer] >= most {
		return false
	}
	if v.held == nil {
		v.held = map[string]int{}
	}
	v.held[viewer]++
	return true
}

// give counts one less.
func (v *viewers) give(viewer string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held[viewer]--; v.held[viewer] == 0 {
		delete(v.held, viewer)
	}
}

// viewerOf returns whose a request is: the holder of a token or certificate, or else an address.
func (s *Server) viewerOf(r *http.Request) string {
	if ctx, ok := s.rights.writer(r); ok {
		if caller := access.CallerOf(ctx); caller.String() != "" {
			return caller.String()
		}
	}
	return hostOf(address(r.RemoteAddr))
}

// hostOf returns the address of a host without the port. IPv6 addresses of one network of 64 bits are one.
func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		return ip.Mask(net.CIDRMask(64, 128)).String()
	}
	return host
}

// fairListener closes the connections of an address beyond those that it may have, so that the others are served.
type fairListener struct {
	net.Listener
	most  int
	conns viewers
}

// Accept returns the next connection of an address that has room for it.
func (l *fairListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if host := hostOf(c.RemoteAddr()); l.conns.take(host, l.most) {
			return &countedConn{Conn: c, closed: sync.OnceFunc(func() { l.conns.give(host) })}, nil
		}
		_ = c.Close() // nothing was said on it
	}
}

// countedConn is a connection that is counted until it is closed.
type countedConn struct {
	net.Conn
	closed func()
}

// Close closes the connection.
func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}
