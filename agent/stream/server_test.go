package stream

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

// peer is a net/http server that records its connections.
type peer struct {
	*httptest.Server
	mu       sync.Mutex
	from     []string // remote addresses of connections, in order
	busy     map[string]int
	together int // maximum of concurrent requests on one connection
	protos   map[string]int
}

// newPeer starts a server on an address, with HTTP/1.1, HTTP/2 or both. It uses TLS if secure is not nil.
func newPeer(t testing.TB, address string, http1, http2 bool, secure *tls.Config, handle http.HandlerFunc) *peer {
	t.Helper()
	p := &peer{busy: map[string]int{}, protos: map[string]int{}}
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

func (p *peer) begin(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.protos[r.Proto]++
	p.busy[r.RemoteAddr]++
	p.together = max(p.together, p.busy[r.RemoteAddr])
}

func (p *peer) end(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy[r.RemoteAddr]--
}

func (p *peer) connections() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.from...)
}

// reply answers with two tokens.
func reply(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	for _, frame := range []string{roleFrame, tokenFrame("a"), tokenFrame("b"), finishFrame, doneFrame} {
		io.WriteString(w, frame)
		w.(http.Flusher).Flush()
	}
}
