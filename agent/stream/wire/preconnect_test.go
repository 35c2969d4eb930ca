package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/stream/testserver"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// idleConns returns the number of idle connections.
func (p *Pool) idleConns() int {
	switch v := p.http.(type) {
	case *http1Pool:
		return v.idle.count()
	case *http2Pool:
		return v.idle.count()
	}
	return 0
}

func (i *idle[C]) count() (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, conns := range i.conns {
		n += len(conns)
	}
	return n
}

// TestPreconnect: each request takes one of the preconnected connections, and the first request on each connection
// records how long opening it took. The client resumes sessions here, so TLS 1.3 servers send tickets.
func TestPreconnect(t *testing.T) {
	a, later := testserver.NewAuthority(t), time.Now().Add(time.Hour)
	old := a.Serves("127.0.0.1", later)
	old.MaxVersion = tls.VersionTLS12
	tickets := a.Serves("127.0.0.1", later)
	// a server that requests a client certificate sends its ticket after the handshake, as OpenSSL does
	tickets.ClientAuth = tls.RequestClientCert
	for name, kind := range map[string]struct {
		http2  bool
		secure *tls.Config
	}{
		"HTTP/1.1":          {false, nil},
		"HTTP/1.1, TLS 1.2": {false, old},
		"HTTP/1.1, TLS 1.3": {false, tickets.Clone()},
		"HTTP/2":            {true, nil},
		"HTTP/2, TLS":       {true, tickets.Clone()},
	} {
		t.Run(name, func(t *testing.T) {
			const slots = 5
			var arrived sync.WaitGroup // so that no request can reuse another's connection
			arrived.Add(slots)
			server := testserver.NewPeer(t, "127.0.0.1:0", !kind.http2, kind.http2, kind.secure,
				func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/first" {
						arrived.Done()
						arrived.Wait()
					}
					io.WriteString(w, "a")
				})
			p := newTestPool(t, Settings{HTTP2: kind.http2, CA: a.PEM})
			u := parse(t, server.URL+"/first")
			var all sync.WaitGroup
			for range slots {
				all.Go(func() {
					if err := p.Preconnect(t.Context(), u); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			for p.idleConns() < slots {
				runtime.Gosched()
			}
			for range slots {
				all.Go(func() {
					answer, w, err := get(t, p, u)
					if err != nil || answer != "a" || !w.Connected || w.OpenTimes.Total <= 0 ||
						(w.OpenTimes.TLS > 0) != (kind.secure != nil) {
						t.Errorf("%v, answer %q, recorded %+v", err, answer, w)
					}
				})
			}
			all.Wait()
			if _, w, err := get(t, p, parse(t, server.URL+"/second")); err != nil || w.Connected {
				t.Errorf("%v; the second request of a connection: recorded %+v", err, w)
			}
			if n := len(server.Connections()); n != slots {
				t.Errorf("%d connections, want %d", n, slots)
			}
		})
	}
}

// TestPreconnectWithoutReuse: if each request opens a connection, none is preconnected, and none is kept.
func TestPreconnectWithoutReuse(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		server := testserver.NewPeer(t, "127.0.0.1:0", true, true, nil,
			func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "a") })
		p, u := newTestPool(t, Settings{HTTP2: http2, New: true}), parse(t, server.URL)
		if err := p.Preconnect(t.Context(), u); err != nil || len(p.dialer.open) != 0 {
			t.Errorf("%v, %d connections open", err, len(p.dialer.open))
		}
		for range 2 {
			if _, w, err := get(t, p, u); err != nil || !w.Connected || p.idleConns() != 0 {
				t.Errorf("HTTP/2 %t: %v, recorded %+v, %d idle", http2, err, w, p.idleConns())
			}
		}
		p.dialer.mu.Lock()
		if n := len(p.dialer.open); n != 0 {
			t.Errorf("HTTP/2 %t: %d connections are left open", http2, n)
		}
		p.dialer.mu.Unlock()
	}
}

// TestPreconnectRefused: no server is listening, and the later request reports that.
func TestPreconnectRefused(t *testing.T) {
	s := testserver.NewRaw(t, func(net.Conn, *bufio.Reader) {})
	s.Close()
	p, u := newTestPool(t, Settings{}), parse(t, s.URL)
	if err := p.Preconnect(t.Context(), u); err == nil {
		t.Error("connected to a closed port")
	}
	_, _, err := get(t, p, u)
	if dial, ok := errors.AsType[*DialError](err); !ok || dial.Class != spatev1.ErrorClass_ERROR_CLASS_CONNECT {
		t.Errorf("the request: %v", err)
	}
}

// TestPreconnectedAndClosed: if a server closes an idle connection before its first request, with or without a reason,
// the request opens another connection and completes.
func TestPreconnectedAndClosed(t *testing.T) {
	for name, sent := range map[string]string{"silent": "",
		"says why": "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			var connections atomic.Int32
			s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
				if connections.Add(1) == 1 {
					io.WriteString(c, sent)
				} else if testserver.TakeRequest(r) {
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
				}
			})
			p, u := newTestPool(t, Settings{}), parse(t, s.URL)
			if err := p.Preconnect(t.Context(), u); err != nil {
				t.Fatal(err)
			}
			for idle := range p.dialer.open {
				for idle.Socket.Quiet() {
					runtime.Gosched()
				}
			}
			if answer, _, err := get(t, p, u); err != nil || answer != "a" {
				t.Errorf("%v, answer %q", err, answer)
			}
		})
	}
}

// TestPreconnectEnds: Preconnect ends with its context, and with the pool.
func TestPreconnectEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := NewPool(&Settings{}, time.Hour, &tls.Config{})
	if err != nil {
		t.Fatal(err)
	}
	u := parse(t, "https://"+l.Addr().String()) // nothing answers the TLS handshake
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := p.Preconnect(ctx, u); err == nil {
		t.Error("connected before the handshake")
	}
	ended := make(chan error)
	go func() { ended <- p.Preconnect(t.Context(), u) }()
	p.Close()
	if err := <-ended; err == nil {
		t.Error("connected by a closed pool")
	}
}

// Bytes after a response that TLS has read but not returned count as left on the connection too.
func TestSurplusHeldByTLS(t *testing.T) {
	config := testserver.NewAuthority(t).Serves("127.0.0.1", time.Now().Add(time.Hour))
	config.DynamicRecordSizingDisabled = true
	for surplus, kept := range map[string]bool{"": true, "x": false} {
		const head = "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
		// so that the client's buffer ends where the response ends
		body := strings.Repeat("a", readBuffer-len(fmt.Sprintf(head, 1000)))
		s := testserver.NewRaw(t, func(c net.Conn, _ *bufio.Reader) {
			secured := tls.Server(c, config)
			for r := bufio.NewReader(secured); testserver.TakeRequest(r); {
				fmt.Fprintf(secured, head+"%s", len(body), body+surplus)
			}
		})
		p := newTestPool(t, Settings{InsecureSkipVerify: true})
		for i := range 3 {
			answer, w, err := get(t, p, parse(t, "https"+s.URL[len("http"):]))
			if err != nil || answer != body || w.Connected == (kept && i > 0) {
				t.Errorf("surplus %q, request %d: %v, %d bytes, recorded %+v", surplus, i, err, len(answer), w)
			}
		}
	}
}
