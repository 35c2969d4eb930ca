// Package testserver has servers for tests of the client and its connections: on net/http, with connections counted,
// and of raw bytes; and an authority that signs their certificates. Only tests import it.
package testserver

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Peer is a net/http server that records its connections.
type Peer struct {
	*httptest.Server
	mu       sync.Mutex
	from     []string // remote addresses of connections, in order
	busy     map[string]int
	Together int            // maximum of concurrent requests on one connection
	Protos   map[string]int // requests by their version of HTTP
}

// NewPeer starts a server on an address, with HTTP/1.1, HTTP/2 or both. It uses TLS if secure is not nil. The
// server is closed when the test ends.
func NewPeer(t testing.TB, address string, http1, http2 bool, secure *tls.Config, handle http.HandlerFunc) *Peer {
	t.Helper()
	p := &Peer{busy: map[string]int{}, Protos: map[string]int{}}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.begin(r)
		defer p.end(r)
		handle(w, r)
	}))
	p.Config.Protocols = new(http.Protocols)
	p.Config.Protocols.SetHTTP1(http1)
	p.Config.Protocols.SetHTTP2(http2)
	p.Config.Protocols.SetUnencryptedHTTP2(http2)
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.Config.ConnState = func(c net.Conn, s http.ConnState) {
		if s == http.StateNew {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.from = append(p.from, c.RemoteAddr().String())
		}
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip(err)
	}
	p.Listener.Close()
	p.Listener = l
	if secure == nil {
		p.Start()
	} else {
		p.TLS, p.EnableHTTP2 = secure, http2
		p.StartTLS()
	}
	t.Cleanup(p.Close)
	return p
}

func (p *Peer) begin(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Protos[r.Proto]++
	p.busy[r.RemoteAddr]++
	p.Together = max(p.Together, p.busy[r.RemoteAddr])
}

func (p *Peer) end(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy[r.RemoteAddr]--
}

// Connections returns the remote addresses of all connections so far, in order.
func (p *Peer) Connections() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.from...)
}
