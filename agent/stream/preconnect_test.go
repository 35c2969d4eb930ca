package stream

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// idleConns returns the number of idle connections.
func (c *Client) idleConns() int {
	switch p := c.pool.(type) {
	case *http1Pool:
		return p.idle.count()
	case *http2Pool:
		return p.idle.count()
	}
	return 0
}

func (i *idle[K, C]) count() (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, conns := range i.conns {
		n += len(conns)
	}
	return n
}

// TestPreconnect: each request takes one of the preconnected connections, and the first request on each connection
// reports how long opening it took. The client resumes sessions here, so TLS 1.3 servers send tickets.
func TestPreconnect(t *testing.T) {
	a := newAuthority(t)
	old := a.serves("127.0.0.1", later())
	old.MaxVersion = tls.VersionTLS12
	tickets := a.serves("127.0.0.1", later())
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
			p := newPeer(t, "127.0.0.1:0", !kind.http2, kind.http2, kind.secure,
				func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get(idHeader) == "" {
						arrived.Done()
						arrived.Wait()
					}
					io.WriteString(w, tokenFrame("a")+doneFrame)
				})
			config := Config{Endpoints: []string{p.URL}, Connection: Connection{HTTP2: kind.http2, CA: a.pem}}
			c, err := newClient(config, &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(slots)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			var all sync.WaitGroup
			for range slots {
				all.Go(func() {
					if err := c.Preconnect(t.Context(), 0); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			for c.idleConns() < slots {
				runtime.Gosched()
			}
			for range slots {
				all.Go(func() {
					var o Observation
					c.Do(t.Context(), Request{Body: body(c)}, &o)
					if o.Err != nil || !o.Connected || o.Connect <= 0 || (o.TLS > 0) != (kind.secure != nil) {
						t.Errorf("%v; the first request of its connection: %t, opened in %v, TLS in %v", o.Err,
							o.Connected, o.Connect, o.TLS)
					}
				})
			}
			all.Wait()
			if o := ask(t, c); o.Err != nil || o.Connected {
				t.Errorf("%v; the second request of a connection: connected %t", o.Err, o.Connected)
			}
			if p.mu.Lock(); len(p.from) != slots {
				t.Errorf("%d connections, want %d", len(p.from), slots)
			}
			p.mu.Unlock()
		})
	}
}

// TestPreconnectWithoutReuse: if each request opens a connection, none is preconnected.
func TestPreconnectWithoutReuse(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		p := newPeer(t, "127.0.0.1:0", true, true, nil,
			func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, tokenFrame("a")+doneFrame) })
		c := newTestClient(t, Config{Endpoints: []string{p.URL}, Connection: Connection{HTTP2: http2, New: true}})
		if err := c.Preconnect(t.Context(), 0); err != nil || len(c.dialer.open) != 0 {
			t.Errorf("%v, %d connections open", err, len(c.dialer.open))
		}
		if o := ask(t, c); o.Err != nil || !o.Connected {
			t.Errorf("%v, connected %t", o.Err, o.Connected)
		}
	}
}

// TestPreconnectRefused: no server is listening, and the later request reports that.
func TestPreconnectRefused(t *testing.T) {
	s := newRawServer(t, answer(chunkedHead, chunk(tokenFrame("a")), chunk(doneFrame), lastChunk))
	s.Close()
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	if err := c.Preconnect(t.Context(), 0); err == nil {
		t.Error("connected to a closed port")
	}
	if o := ask(t, c); o.Err == nil || o.Err.Class != spatev1.ErrorClass_ERROR_CLASS_CONNECT {
		t.Errorf("the request: %v", o.Err)
	}
}

// TestPreconnectedAndClosed: if a server closes an idle connection before its first request, with or without a reason,
// the request opens another connection and completes.
func TestPreconnectedAndClosed(t *testing.T) {
	for name, sent := range map[string]string{"silent": "",
		"says why": "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			var connections atomic.Int32
			s := newRawServer(t, func(c net.Conn, r *bufio.Reader) {
				if connections.Add(1) == 1 {
					io.WriteString(c, sent)
				} else {
					answer(chunkedHead, chunk(tokenFrame("a")), chunk(doneFrame), lastChunk)(c, r)
				}
			})
			c := newTestClient(t, Config{Endpoints: []string{s.URL}})
			if err := c.Preconnect(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			for idle := range c.dialer.open {
				for idle.socket.Quiet() {
					runtime.Gosched()
				}
			}
			if o := ask(t, c); o.Err != nil || o.TokenFrames != 1 {
				t.Errorf("%v, %d frames", o.Err, o.TokenFrames)
			}
		})
	}
}

// TestPreconnectEnds: Preconnect ends with its context, and with the client.
func TestPreconnectEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// nothing answers the TLS handshake
	c := newTestClient(t, Config{Endpoints: []string{"https://" + l.Addr().String()}, ConnectTimeout: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.Preconnect(ctx, 0); err == nil {
		t.Error("connected before the handshake")
	}
	ended := make(chan error)
	go func() { ended <- c.Preconnect(t.Context(), 0) }()
	c.Close()
	if err := <-ended; err == nil {
		t.Error("connected by a closed client")
	}
}
