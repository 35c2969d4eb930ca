package wire_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/stream/socket"
	"github.com/spate-load/spate/agent/stream/streamtest"
	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/agent/stream/wire"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestConnectTimes(t *testing.T) {
	a := testserver.NewAuthority(t)
	for name, tt := range map[string]struct {
		secure *tls.Config
		host   string
		http2  bool
	}{
		"plain": {nil, "127.0.0.1", false}, "plain by name": {nil, "localhost", false},
		"TLS by name":     {a.Serves("localhost", testserver.Later()), "localhost", false},
		"HTTP/2 over TLS": {a.Serves("127.0.0.1", testserver.Later()), "127.0.0.1", true}, "HTTP/2": {nil, "localhost", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := testserver.NewPeer(t, "127.0.0.1:0", true, true, tt.secure, testserver.Reply)
			_, port, _ := net.SplitHostPort(p.Listener.Addr().String())
			scheme := map[bool]string{true: "https://", false: "http://"}[tt.secure != nil]
			c := streamtest.NewClient(t, stream.Config{Endpoints: []string{scheme + tt.host + ":" + port},
				Connection: wire.Settings{CA: a.PEM, HTTP2: tt.http2}})
			o := streamtest.Ask(t, c)
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			if !o.Connected || o.TCP <= 0 || (o.DNS > 0) != (tt.host == "localhost") ||
				(o.TLS > 0) != (tt.secure != nil) {
				t.Errorf("connected %t in DNS %v, TCP %v, TLS %v", o.Connected, o.DNS, o.TCP, o.TLS)
			}
			if rest := o.Connect - o.DNS - o.TCP - o.TLS; rest < 0 || rest > o.Connect/2 {
				t.Errorf("%v of %v are in no part", rest, o.Connect)
			}
			if o := streamtest.Ask(t, c); o.Connected || o.Connect+o.DNS+o.TCP+o.TLS != 0 || o.Err != nil {
				t.Errorf("a kept connection took %v: DNS %v, TCP %v, TLS %v; %v", o.Connect, o.DNS, o.TCP, o.TLS, o.Err)
			}
		})
	}
}

func TestReuse(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		for _, fresh := range []bool{false, true} {
			t.Run(fmt.Sprintf("HTTP/2 %t, new %t", http2, fresh), func(t *testing.T) {
				p := testserver.NewPeer(t, "127.0.0.1:0", true, true, nil, testserver.Reply)
				c := streamtest.NewClient(t, stream.Config{Endpoints: []string{p.URL},
					Connection: wire.Settings{HTTP2: http2, New: fresh}})
				for i := range 5 {
					if o := streamtest.Ask(t, c); o.Err != nil || o.Connected != (fresh || i == 0) ||
						o.Sent < o.Start ||
						o.Sent > o.FirstByte {
						t.Errorf("request %d: connected %t, %+v", i, o.Connected, o)
					}
				}
				want := map[bool]int{false: 1, true: 5}[fresh]
				if got := p.Connections(); len(got) != want {
					t.Errorf("%d connections, want %d", len(got), want)
				}
				if want := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[http2]; p.Protos[want] != 5 {
					t.Errorf("protocols %v", p.Protos)
				}
			})
		}
	}
}

// A connection carries one request at a time, over HTTP/2 too.
func TestOneRequestAtATime(t *testing.T) {
	p := testserver.NewPeer(t, "127.0.0.1:0", true, true, nil, testserver.Reply)
	c := streamtest.NewClient(t, stream.Config{Endpoints: []string{p.URL}, Connection: wire.Settings{HTTP2: true}})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var o stream.Observation
			for range 25 {
				if c.Do(t.Context(), stream.Request{Body: streamtest.Body(c)}, &o); o.Err != nil ||
					o.TokenFrames != 2 ||
					o.FinishReason != "stop" {
					t.Errorf("%v, %d frames", o.Err, o.TokenFrames)
				}
			}
		})
	}
	all.Wait()
	if n := len(p.Connections()); p.Together != 1 || n > 8 {
		t.Errorf("%d requests at once on one of %d connections", p.Together, n)
	}
}

func TestCertificates(t *testing.T) {
	a, other := testserver.NewAuthority(t), testserver.NewAuthority(t)
	certificate, key := a.Sign("me", testserver.Later())
	strange, strangeKey := other.Sign("me", testserver.Later())
	asks := a.Serves("127.0.0.1", testserver.Later())
	asks.ClientAuth, asks.ClientCAs = tls.RequireAndVerifyClientCert, a.Pool()
	for name, tt := range map[string]struct {
		server     *tls.Config
		connection wire.Settings
		want       string // in the error; empty: no error
	}{
		"known":      {a.Serves("127.0.0.1", testserver.Later()), wire.Settings{CA: a.PEM}, ""},
		"unknown":    {a.Serves("127.0.0.1", testserver.Later()), wire.Settings{}, "connection.ca"},
		"of another": {a.Serves("127.0.0.1", testserver.Later()), wire.Settings{CA: other.PEM}, "connection.ca"},
		"expired": {a.Serves("127.0.0.1", time.Now().Add(-time.Minute)), wire.Settings{CA: a.PEM},
			"renew the certificate"},
		"another name": {a.Serves("llm.example", testserver.Later()), wire.Settings{CA: a.PEM}, "connection.server_name"},
		"that name":    {a.Serves("llm.example", testserver.Later()), wire.Settings{CA: a.PEM, ServerName: "llm.example"}, ""},
		"not checked": {a.Serves("llm.example", time.Now().Add(-time.Minute)),
			wire.Settings{InsecureSkipVerify: true}, ""},
		"client's":            {asks, wire.Settings{CA: a.PEM, Certificate: certificate, Key: key}, ""},
		"client's is missing": {asks, wire.Settings{CA: a.PEM}, "connection.certificate"},
		"client's is strange": {asks, wire.Settings{CA: a.PEM, Certificate: strange, Key: strangeKey},
			"connection.certificate"},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %t", name, http2), func(t *testing.T) {
				p := testserver.NewPeer(t, "127.0.0.1:0", true, true, tt.server.Clone(), testserver.Reply)
				tt.connection.HTTP2 = http2
				o := streamtest.Ask(
					t,
					streamtest.NewClient(t, stream.Config{Endpoints: []string{p.URL}, Connection: tt.connection}),
				)
				streamtest.CheckRefusal(t, o, spatev1.ErrorClass_ERROR_CLASS_TLS, tt.want)
			})
		}
	}
}

func TestOtherVersionOfHTTP(t *testing.T) {
	a := testserver.NewAuthority(t)
	const badFrame, tlsClass, connect = spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME, spatev1.ErrorClass_ERROR_CLASS_TLS,
		spatev1.ErrorClass_ERROR_CLASS_CONNECT
	ask1 := wire.Settings{CA: a.PEM}
	ask2 := wire.Settings{CA: a.PEM, HTTP2: true}
	strict := a.Serves("127.0.0.1", testserver.Later())
	strict.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config,
		error) { // as servers other than Go's do it
		c := strict.Clone()
		if c.NextProtos = []string{"h2"}; hello.SupportedProtos[0] != "h2" {
			c.NextProtos = []string{"something else"}
		}
		return c, nil
	}
	t.Run("only HTTP/2, TLS", func(t *testing.T) {
		p := testserver.NewPeer(t, "127.0.0.1:0", false, true, strict, testserver.Reply)
		streamtest.CheckRefusal(
			t,
			streamtest.Ask(t, streamtest.NewClient(t, stream.Config{Endpoints: []string{p.URL}, Connection: ask1})),
			tlsClass,
			`connection: {http: "2"}`,
		)
	})
	t.Run("only HTTP/2, TLS of Go's, which agrees on nothing", func(t *testing.T) {
		p := testserver.NewPeer(
			t,
			"127.0.0.1:0",
			false,
			true,
			a.Serves("127.0.0.1", testserver.Later()),
			testserver.Reply,
		)
		o := streamtest.Ask(t, streamtest.NewClient(t, stream.Config{Endpoints: []string{p.URL}, Connection: ask1}))
		if o.Err == nil || !strings.Contains(o.Err.Message, `connection: {http: "2"}`) {
			t.Errorf("%+v", o.Err)
		}
	})
	t.Run("only HTTP/2", func(t *testing.T) {
		s := testserver.NewRaw(t, func(c net.Conn, _ *bufio.Reader) {
			_, _ = c.Write([]byte("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64")) // SETTINGS
			_, _ = c.Read(make([]byte, 1))
		})
		streamtest.CheckRefusal(
			t,
			streamtest.Ask(t, streamtest.NewClient(t, stream.Config{Endpoints: []string{s.URL}, Connection: ask1})),
			badFrame,
			`connection: {http: "2"}`,
		)
	})
	t.Run("only HTTP/1.1, TLS", func(t *testing.T) {
		p := testserver.NewPeer(
			t,
			"127.0.0.1:0",
			true,
			false,
			a.Serves("127.0.0.1", testserver.Later()),
			testserver.Reply,
		)
		streamtest.CheckRefusal(
			t,
			streamtest.Ask(t, streamtest.NewClient(t, stream.Config{Endpoints: []string{p.URL}, Connection: ask2})),
			tlsClass,
			"does not speak HTTP/2",
		)
	})
	t.Run("only HTTP/1.1", func(t *testing.T) {
		p := testserver.NewPeer(t, "127.0.0.1:0", true, false, nil, testserver.Reply)
		c := streamtest.NewClient(t, stream.Config{Endpoints: []string{p.URL}, Connection: ask2})
		streamtest.CheckRefusal(t, streamtest.Ask(t, c), badFrame, "does not speak HTTP/2")
		if err := streamtest.CheckError(t, c); err == nil || err.Class != connect ||
			!strings.Contains(err.Message, "does not speak HTTP/2") {
			t.Errorf("the check says %v", err)
		}
	})
	t.Run("only HTTP/1.1, and silent", func(t *testing.T) {
		s := testserver.NewRaw(t, func(c net.Conn, _ *bufio.Reader) { _, _ = c.Read(make([]byte, 1000)) })
		c := streamtest.NewClient(t, stream.Config{Endpoints: []string{s.URL}, Connection: ask2})
		if err := streamtest.CheckError(t, c); err == nil || err.Class != connect ||
			!strings.Contains(err.Message, "without an answer in HTTP/2") {
			t.Errorf("the check says %v", err)
		}
	})
	t.Run("HTTP/2", func(t *testing.T) {
		p := testserver.NewPeer(t, "127.0.0.1:0", false, true, nil, testserver.Reply)
		c := streamtest.NewClient(t, stream.Config{Endpoints: []string{p.URL}, Connection: ask2})
		if err := c.Check(t.Context(), 0); err != nil {
			t.Error(err)
		}
	})
}

func TestIPv6OverTLSFromASource(t *testing.T) {
	a := testserver.NewAuthority(t)
	for name, secure := range map[string]*tls.Config{"plain": nil, "TLS": a.Serves("::1", testserver.Later())} {
		t.Run(name, func(t *testing.T) {
			p := testserver.NewPeer(t, "[::1]:0", true, true, secure, testserver.Reply)
			c := streamtest.NewClient(t, stream.Config{Endpoints: []string{p.URL}, Connection: wire.Settings{CA: a.PEM,
				Sources: []netip.Addr{netip.MustParseAddr("::1"), netip.MustParseAddr("127.0.0.2")}}})
			if o := streamtest.Ask(t, c); o.Err != nil || o.TokenFrames != 2 {
				t.Errorf("%+v", o)
			}
		})
	}
}

func TestSourceAddresses(t *testing.T) {
	p := testserver.NewPeer(t, "127.0.0.1:0", true, true, nil, testserver.Reply)
	sources := []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3"),
		netip.MustParseAddr("127.0.0.4")}
	if l, err := net.Listen("tcp", "127.0.0.4:0"); err != nil {
		t.Skip(err)
	} else {
		l.Close()
	}
	for _, url := range []string{p.URL, strings.Replace(p.URL, "127.0.0.1", "localhost", 1)} {
		c := streamtest.NewClient(
			t,
			stream.Config{Endpoints: []string{url}, Connection: wire.Settings{New: true, Sources: sources}},
		)
		before := len(p.Connections())
		for range 6 {
			if o := streamtest.Ask(t, c); o.Err != nil {
				t.Fatal(o.Err)
			}
		}
		for i, from := range p.Connections()[before:] {
			if !strings.HasPrefix(from, sources[i%3].String()+":") {
				t.Errorf("connection %d comes from %s", i, from)
			}
		}
	}
	c := streamtest.NewClient(t, stream.Config{Endpoints: []string{p.URL},
		Connection: wire.Settings{Sources: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}})
	streamtest.CheckRefusal(t, streamtest.Ask(t, c), spatev1.ErrorClass_ERROR_CLASS_CONNECT, "source address")
}

func TestHostOverride(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		host := make(chan string, 1)
		p := testserver.NewPeer(t, "127.0.0.1:0", true, true, nil, func(w http.ResponseWriter, r *http.Request) {
			host <- r.Host
			testserver.Reply(w, r)
		})
		c := streamtest.NewClient(
			t,
			stream.Config{Endpoints: []string{p.URL}, Headers: map[string]string{"Host": "llm.example"},
				Connection: wire.Settings{HTTP2: http2}},
		)
		if o := streamtest.Ask(t, c); o.Err != nil {
			t.Error(o.Err)
		} else if got := <-host; got != "llm.example" {
			t.Errorf("HTTP/2 %t: host %s", http2, got)
		}
	}
}

func TestInvalidConnections(t *testing.T) {
	for want, c := range map[string]wire.Settings{
		"set both or neither":        {Certificate: "x"},
		"remove one of them":         {CA: "x", InsecureSkipVerify: true},
		"without connection.proxy":   {ProxyAuth: "u:p"},
		`must be written "user:`:     {ProxyAuth: "hunter2", Proxy: "http://p"},
		"no certificate in PEM":      {CA: "hunter2"},
		"connection.certificate and": {Certificate: "hunter2", Key: "hunter2"},
		"given as http://host":       {Proxy: "http://hunter2:hunter2@p"},
		"given as http://host:po":    {Proxy: "socks5://p"},
	} {
		_, err := stream.New(stream.Config{Endpoints: []string{"http://h"}, Connection: c})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// Only the first request on a connection has the round trip that the kernel measured when the connection was opened.
func TestRoundTripOfANewConnection(t *testing.T) {
	s := testserver.NewRaw(
		t,
		testserver.Answer(
			testserver.ChunkedHead+testserver.Chunk(
				testserver.TokenFrame("a"),
			)+testserver.Chunk(
				testserver.DoneFrame,
			)+testserver.LastChunk,
		),
	)
	if !measuresRoundTrips(t, s.Addr().String()) {
		t.Skip("this system does not tell round trips")
	}
	c := streamtest.NewClient(t, stream.Config{Endpoints: []string{s.URL}})
	for i := range 3 {
		o := streamtest.Ask(t, c)
		if (o.RTT > 0) != (i == 0) || o.RTT > o.Connect || o.RTT%time.Microsecond != 0 {
			t.Errorf("request %d: round trip %v, connected in %v, %v", i, o.RTT, o.Connect, o.Err)
		}
	}
}

// measuresRoundTrips reports whether this system's TCP_INFO has round trips. Linux's has; that of compatible systems
// may not.
func measuresRoundTrips(t *testing.T, addr string) bool {
	t.Helper()
	if runtime.GOOS != "linux" {
		return false
	}
	var s socket.Sweepers
	defer s.Close()
	opened, err := s.Dial(t.Context(), nil, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	return opened.RTT > 0
}
