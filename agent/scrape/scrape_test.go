package scrape

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// words are a scraper's complaints.
type words struct {
	mu    sync.Mutex
	texts []string
}

func (w *words) complain(url string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, url+": "+err.Error())
}

// values returns a source's values by name.
func values(samples []*spatev1.ServerSample, source uint32) map[string]float64 {
	out := map[string]float64{}
	for _, s := range samples {
		if s.GetSource() == source {
			out[s.GetName()] = s.GetValue()
		}
	}
	return out
}

// Each source is asked once per window. If one fails, only its own numbers are missing, and the failure is reported
// once.
func TestScrape(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	asks := make(chan struct{}, 100)
	good := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Authorization") != "Bearer k" || q.Header.Get("X-Team") != "a" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, "# TYPE a counter\na %d\n", asked.Add(1))
		asks <- struct{}{}
	}))
	defer good.Close()
	bad := httptest.NewServer(http.RedirectHandler(good.URL, http.StatusFound))
	defer bad.Close()
	long := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(strings.Repeat("a 1\n", 2000)))
	}))
	defer long.Close()
	said := &words{}
	s := New(Config{
		OnFailure: said.complain,
		Sources: []Source{
			{Number: 3, Names: []string{"a"}, URL: good.URL + "/metrics", Header: http.Header{"Authorization": {"Bearer k"},
				"X-Team": {"a"}}},
			{Number: 5, Names: []string{"a"}, URL: bad.URL}, {Number: 6, Names: []string{"a"}, URL: long.URL},
		},
	})
	s.maxPage = 4000
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	// The stage started 41.9 s ago: windows 0 to 41 are over, and the next one starts soon.
	running.Go(func() { s.Run(ctx, clock.Now().Add(-41900*time.Millisecond), 0) })
	for range 3 {
		<-asks
	}
	cancel()
	running.Wait()
	first, rest := s.TakeSamples(0), s.TakeSamples(1000)
	if got := values(first, 3); got["a"] != 1 || got[servermetrics.Up] != 1 {
		t.Errorf("window 0: %v", got)
	}
	if got := values(rest, 3); got["a"] < 2 || got[servermetrics.Up] != 1 || len(s.TakeSamples(1000)) != 0 {
		t.Errorf("later: %v", got)
	}
	for _, source := range []uint32{5, 6} {
		if got := values(first, source); len(got) != 1 || got[servermetrics.Up] != 0 {
			t.Errorf("source %d: %v", source, got)
		}
	}
	all := strings.Join(said.texts, "\n")
	if len(said.texts) != 2 || !strings.Contains(all, "status 302") ||
		!strings.Contains(all, "longer than 4000 bytes") || strings.Contains(all, "Bearer") {
		t.Errorf("it said:\n%s", all)
	}
}

// A server that does not answer times out before the window's snapshot is made.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
	defer server.Close()
	defer close(hold)
	s := New(Config{OnFailure: func(string, error) {}})
	samples, err := s.sampleOnce(t.Context(), Source{URL: server.URL, Names: []string{"a"}})
	s.other.CloseIdleConnections()
	if err == nil || err.Error() != "no answer within 900ms" || len(samples) != 1 || samples[0].GetValue() != 0 {
		t.Errorf("%v, %v", samples, err)
	}
}

// A server that speaks only HTTP/2 is told from one that is down, without the bytes of its frames.
func TestServerWithoutHTTP1(t *testing.T) {
	for _, unasked := range []bool{false, true} { // servers of HTTP/2 need not wait for the request
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, given := t.Context(), make(chan struct{})
		if unasked { // the client begins its request when it has given the connection up
			wait := func(httptrace.GotConnInfo) { <-given }
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: wait})
		}
		var serving sync.WaitGroup
		serving.Go(func() {
			defer close(given)
			c, err := listener.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			request := make([]byte, 1000) // which has no preface of HTTP/2
			if !unasked {
				_, _ = c.Read(request)
			}
			_, _ = c.Write([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00")) // an empty SETTINGS frame
			if unasked {
				_, _ = c.Read(request)
			}
		})
		s := New(Config{OnFailure: func(string, error) {}})
		_, err = s.sampleOnce(ctx, Source{URL: "http://" + listener.Addr().String(), Names: []string{"a"}})
		s.other.CloseIdleConnections()
		if err == nil || !strings.HasPrefix(err.Error(), "the answer is not HTTP/1.1: ") {
			t.Errorf("unasked %v: %q", unasked, err)
		}
		listener.Close()
		serving.Wait()
	}
}

// Sources on one host, or behind one proxy, are asked at once: none is late because of the others.
func TestSourcesOfOneHostDoNotWaitForEachOther(t *testing.T) {
	const n = 8
	for _, behindProxy := range []bool{false, true} {
		t.Run(fmt.Sprintf("behind a proxy: %v", behindProxy), func(t *testing.T) {
			var here atomic.Int32
			all := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if here.Add(1) == n {
					close(all)
				}
				select {
				case <-all:
					fmt.Fprintln(w, "a 1")
				case <-q.Context().Done(): // the sources were not asked at once
				}
			}))
			defer server.Close()
			config := Config{}
			for i := range uint32(n) {
				source := Source{Number: i, Names: []string{"a"}, URL: fmt.Sprintf("%s/metrics/%d", server.URL, i)}
				if behindProxy {
					source.URL, source.OnTargetHost = fmt.Sprintf("http://engine-%d.example/metrics", i), true
				}
				config.Sources = append(config.Sources, source)
			}
			if behindProxy {
				proxy, err := url.Parse(server.URL)
				if err != nil {
					t.Fatal(err)
				}
				config.Proxy = proxy
			}
			s := New(config)
			var asked sync.WaitGroup
			for _, source := range config.Sources {
				asked.Go(func() {
					if _, err := s.sampleOnce(t.Context(), source); err != nil {
						t.Errorf("%s: %v", source.URL, err)
					}
				})
			}
			asked.Wait()
			s.target.CloseIdleConnections()
			s.other.CloseIdleConnections()
		})
	}
}

// A server that accepts connections but lets TLS hang is asked again in each window, and read again once it works.
func TestHangingHandshakesDelayNothing(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		fmt.Fprintln(w, "a 1")
	}))
	hanging := &hangs{Listener: server.Listener, left: 2}
	server.Listener = hanging
	server.StartTLS()
	defer hanging.release() // once nothing is accepted any more
	defer server.Close()
	authorities := x509.NewCertPool()
	authorities.AddCert(server.Certificate())
	source := Source{URL: server.URL, Names: []string{"a"}, OnTargetHost: true}
	s := New(Config{Sources: []Source{source}, TLS: &tls.Config{RootCAs: authorities}})
	defer s.target.CloseIdleConnections()
	for range 2 {
		if _, err := s.sampleOnce(t.Context(), source); err == nil {
			t.Fatal("a handshake that hangs is answered")
		}
	}
	if samples, err := s.sampleOnce(t.Context(), source); err != nil {
		t.Errorf("once it is well: %v, %v", err, samples)
	}
}

// hangs accepts the first connections, but leaves them unused.
type hangs struct {
	net.Listener
	left int
	kept []net.Conn
}

// Accept is called by one goroutine.
func (h *hangs) Accept() (net.Conn, error) {
	for {
		c, err := h.Listener.Accept()
		if err != nil || h.left == 0 {
			return c, err
		}
		h.left--
		h.kept = append(h.kept, c)
	}
}

func (h *hangs) release() {
	for _, c := range h.kept {
		_ = c.Close() // the other side has already closed it
	}
}

func TestSameHost(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"http://h:8000", "http://h:8000/metrics", true}, {"https://H", "https://h:443/metrics", true},
		{"http://h", "http://h:80/m", true},
		{"http://h:8000", "http://h:8002/metrics", false}, {"http://h", "https://h/metrics", false},
		{"http://h", "http://i/metrics", false},
		{"http://h", "://", false},
	} {
		if SameHost(c.a, c.b) != c.same {
			t.Errorf("%s and %s: not %v", c.a, c.b, c.same)
		}
	}
}

// If a server puts a key into a label, only that line is dropped.
func TestLinesWithSecretsAreSkipped(t *testing.T) {
	s := New(Config{Secret: func(text string) bool { return strings.Contains(text, "sk-") }})
	page := s.withoutSecrets([]byte("a 1\nb{key=\"sk-1\"} 2\nc 3"))
	if string(page) != "a 1\nc 3" {
		t.Errorf("%q", page)
	}
}
