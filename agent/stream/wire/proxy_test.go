package wire_test

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/stream/streamtest"
	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/agent/stream/wire"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// testProxy is an HTTP proxy that requires a user and a password if auth is set.
type testProxy struct {
	*httptest.Server
	auth string
	mu   sync.Mutex
	seen []string // methods and targets
}

func newTestProxy(t testing.TB, auth string) *testProxy {
	t.Helper()
	p := &testProxy{auth: auth}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

// ServeHTTP opens a tunnel, or forwards a request in absolute form.
func (p *testProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.seen = append(p.seen, r.Method+" "+r.RequestURI)
	p.mu.Unlock()
	given := r.Header.Get("Proxy-Authorization")
	if p.auth != "" && given != "Basic "+base64.StdEncoding.EncodeToString([]byte(p.auth)) {
		http.Error(w, "who are you, "+given+"?", http.StatusProxyAuthRequired)
		return
	}
	if r.Method == http.MethodConnect {
		p.tunnel(w, r)
		return
	}
	r.RequestURI = ""
	r.Header.Del("Proxy-Authorization")
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	w.Header().Set("Content-Type", response.Header.Get("Content-Type"))
	w.WriteHeader(response.StatusCode)
	io.Copy(flusher{w}, response.Body)
}

func (p *testProxy) tunnel(w http.ResponseWriter, r *http.Request) {
	there, err := net.Dial("tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	here, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() {
		io.Copy(there, here)
		there.Close()
	}()
	io.Copy(here, there)
	here.Close()
}

type flusher struct{ http.ResponseWriter }

func (f flusher) Write(b []byte) (int, error) {
	defer f.ResponseWriter.(http.Flusher).Flush()
	return f.ResponseWriter.Write(b)
}

func TestProxies(t *testing.T) {
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	a := testserver.NewAuthority(t)
	for _, tt := range []struct {
		name   string
		secure *tls.Config
		http2  bool
		seen   string
	}{
		{"plain", nil, false, "POST http://"}, {"TLS", a.Serves("127.0.0.1", testserver.Later()), false, "CONNECT 127.0.0.1:"},
		{"HTTP/2", nil, true, "CONNECT 127.0.0.1:"}, {"HTTP/2 over TLS", a.Serves("127.0.0.1", testserver.Later()), true,
			"CONNECT 127.0.0.1:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := testserver.NewPeer(t, "127.0.0.1:0", true, true, tt.secure, testserver.Reply)
			for _, auth := range []string{"", "user:hunter2 & more"} {
				p := newTestProxy(t, auth)
				c := streamtest.NewClient(t, stream.Config{Endpoints: []string{server.URL},
					Connection: wire.Settings{CA: a.PEM, HTTP2: tt.http2, Proxy: p.URL, ProxyAuth: auth}})
				if err := c.Check(t.Context(), 0); err != nil {
					t.Errorf("the check says %v", err)
				}
				for i := range 2 {
					o := streamtest.Ask(t, c)
					for again := 0; i > 0 && o.Connected && again < 50; again++ {
						o = streamtest.Ask(t, c) // an answer that ends late does not keep its connection
					}
					if o.Err != nil || o.TokenFrames != 2 || o.Connected != (i == 0) || (o.TCP > 0) != (i == 0) {
						t.Errorf("request %d: %v; %d frames, connected %t, TCP %v", i, o.Err, o.TokenFrames,
							o.Connected, o.TCP)
					}
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				for _, seen := range p.seen {
					if !strings.HasPrefix(seen, tt.seen) {
						t.Errorf("the proxy saw %q", seen)
					}
				}
				if len(p.seen) == 0 {
					t.Error("the proxy saw nothing")
				}
			}
		})
	}
}

func TestProxyErrors(t *testing.T) {
	a := testserver.NewAuthority(t)
	const status, connect = spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS, spatev1.ErrorClass_ERROR_CLASS_CONNECT
	plain := testserver.NewPeer(t, "127.0.0.1:0", true, true, nil, testserver.Reply)
	secure := testserver.NewPeer(
		t,
		"127.0.0.1:0",
		true,
		true,
		a.Serves("127.0.0.1", testserver.Later()),
		testserver.Reply,
	)
	p := newTestProxy(t, "user:right")
	gone := newTestProxy(t, "")
	gone.Close()
	silent := testserver.NewRaw(t, testserver.Answer("nonsense\r\n\r\n"))
	for i, tt := range []struct {
		endpoint, proxy, auth string
		class                 spatev1.ErrorClass
		want                  string
	}{
		{plain.URL, p.URL, "", status, "set connection.proxy_auth"},
		{secure.URL, p.URL, "", connect, "set connection.proxy_auth"},
		{plain.URL, p.URL, "user:hunter2", status, "rejected the user and password"},
		{secure.URL, p.URL, "user:hunter2", connect, "rejected the user and password"},
		{plain.URL, gone.URL, "", connect, "connection refused"},
		{secure.URL, gone.URL, "", connect, "connection refused"},
		{secure.URL, silent.URL, "", connect, "did not answer CONNECT"},
		{"https://127.0.0.1:1", newTestProxy(t, "").URL, "", connect, "refused a tunnel to 127.0.0.1:1: 502"},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			c := streamtest.NewClient(t, stream.Config{Endpoints: []string{tt.endpoint},
				Connection: wire.Settings{CA: a.PEM, Proxy: tt.proxy, ProxyAuth: tt.auth}})
			o := streamtest.Ask(t, c)
			streamtest.CheckRefusal(t, o, tt.class, tt.want)
			secret := base64.StdEncoding.EncodeToString([]byte(tt.auth))
			if o.Err != nil && tt.auth != "" &&
				(strings.Contains(o.Err.Message, "hunter2") || strings.Contains(o.Err.Message, secret)) {
				t.Errorf("the password is in %q", o.Err.Message)
			}
		})
	}
}

// A proxy that does not answer runs into the connect timeout, and the error names the phase.
func TestSilentProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // the backlog accepts connections
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := streamtest.NewClient(t, stream.Config{Endpoints: []string{"https://h"}, ConnectTimeout: streamtest.Hold,
		Connection: wire.Settings{Proxy: "http://" + l.Addr().String()}})
	streamtest.CheckRefusal(t, streamtest.Ask(t, c), spatev1.ErrorClass_ERROR_CLASS_CONNECT,
		"connect timeout after 80ms, during the proxy's CONNECT")
}
