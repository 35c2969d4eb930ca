package ready

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// page answers with one metric, and keeps the requests.
type page struct {
	mu   sync.Mutex
	asks []*http.Request
}

func (p *page) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asks = append(p.asks, q)
	fmt.Fprintln(w, "m 7")
}

// asked returns the last request.
func (p *page) asked(t *testing.T) *http.Request {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asks) == 0 {
		t.Fatal("it was not asked")
	}
	return p.asks[len(p.asks)-1]
}

// private makes a certificate authority. secrets are the values of a plan's references. Servers have a certificate for
// llm.example.com and require one from their clients.
func private(t *testing.T) (secrets map[string]string, serve func(http.Handler) *httptest.Server) {
	t.Helper()
	dir, now := t.TempDir(), time.Now()
	if err := certs.Init(dir, now); err != nil {
		t.Fatal(err)
	}
	own, err1 := certs.Issue(dir, certs.Coordinator, "server", []string{"llm.example.com"}, now)
	client, err2 := certs.Issue(dir, certs.Agent, "client", nil, now)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	secrets = map[string]string{"env:KEY": "sk-1", "env:AUTH": "user:word"}
	for reference, file := range map[string]string{"file:ca": own.Authority, "file:cert": client.Cert,
		"file:key": client.Key} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		secrets[reference] = string(text)
	}
	pair, err := tls.LoadX509KeyPair(own.Cert, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	known := x509.NewCertPool()
	known.AppendCertsFromPEM([]byte(secrets["file:ca"]))
	return secrets, func(h http.Handler) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert,
			ClientCAs: known}
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
}

// told asks the servers of a target for some windows. It returns by source whether the source answered, and what was
// logged.
func told(t *testing.T, target *spatev1.Target, secrets map[string]string) (up map[uint32]bool, said string) {
	t.Helper()
	target.Name, target.ServerMetrics.Names = "t", []string{"m"}
	var numbers []uint32
	for i := range target.GetServerMetrics().GetUrls() {
		numbers = append(numbers, uint32(i))
	}
	var log strings.Builder
	s := &Stage{Assigned: &spatev1.Stage{Target: target}}
	res := &Resources{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	config, err := s.clientConfig(secrets)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.watchServers(t.Context(), numbers, config, res); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Servers.Run(ctx, clock.Now(), 0) })
	up = map[uint32]bool{}
	for begin := time.Now(); len(up) < len(numbers) &&
		time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
		for _, sample := range s.Servers.TakeSamples(1000) {
			if sample.GetName() == servermetrics.Up {
				up[sample.GetSource()] = sample.GetValue() == 1
			}
		}
	}
	cancel()
	running.Wait()
	return up, log.String()
}

// A target without metrics is asked once: no connection to it stays open.
func TestNoConnectionToServersWithoutMetrics(t *testing.T) {
	var opened atomic.Int64
	closed := make(chan struct{}, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound) // without a body, after which the connection could be used again
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			closed <- struct{}{}
		}
	}
	server.Start()
	defer server.Close()
	s := &Stage{Assigned: &spatev1.Stage{Target: &spatev1.Target{Name: "t", Endpoints: []string{server.URL}}}}
	s.Preparation = &spatev1.Preparation{}
	config, err := s.clientConfig(nil)
	if err == nil {
		err = s.watchServers(t.Context(), []uint32{0}, config, &Resources{})
	}
	if err != nil || s.Servers != nil || opened.Load() == 0 {
		t.Fatalf("%v, servers %v, %d connections", err, s.Servers, opened.Load())
	}
	for range opened.Load() {
		select {
		case <-closed:
		case <-time.After(time.Minute):
			t.Fatal("a connection is still open")
		}
	}
}

// The metrics of the endpoints' machines are read over the plan's connection settings; all other hosts are verified by
// the system's authorities.
func TestServersAreReachedAsTheTarget(t *testing.T) {
	secrets, serve := private(t)
	endpoint, beside := &page{}, &page{}
	api, worker := serve(endpoint), serve(beside)
	foreign := strings.Replace(api.URL, "127.0.0.1", "localhost", 1)
	target := &spatev1.Target{
		Endpoints: []string{api.URL}, ApiKey: "env:KEY", Headers: map[string]string{"Host": "llm.example.com",
			"X-Team": "a"},
		Connection: &spatev1.Connection{Ca: "file:ca", Certificate: "file:cert", Key: "file:key",
			ServerName: "llm.example.com", Http: "2"},
		ServerMetrics: &spatev1.ServerMetrics{
			Urls: []string{api.URL + "/metrics", worker.URL + "/metrics", foreign + "/metrics"},
		},
	}
	up, said := told(t, target, secrets)
	if !up[0] || !up[1] || up[2] || !strings.Contains(said, "localhost") || strings.Contains(said, "sk-1") ||
		strings.Count(said, "cannot be read") != 1 {
		t.Fatalf("%v, it said %s", up, said)
	}
	if q := endpoint.asked(t); q.Header.Get("Authorization") != "Bearer sk-1" || q.Header.Get("X-Team") != "a" ||
		q.Host != "llm.example.com" {
		t.Errorf("the endpoint's host got %v for %s", q.Header, q.Host)
	}
	if q := beside.asked(t); q.Header.Get("Authorization") != "" || q.Header.Get("X-Team") != "" ||
		q.Host != worker.Listener.Addr().String() {
		t.Errorf("another port of its machine got %v for %s", q.Header, q.Host)
	}
	target.Endpoints[0] = strings.Replace(api.URL, "https", "http", 1)
	if up, said := told(t, target, secrets); !up[0] || !up[1] || up[2] {
		t.Errorf("beside an endpoint without TLS: %v, it said %s", up, said)
	}
	target.Endpoints[0] = api.URL
	target.Connection.Ca, target.Connection.ServerName, target.Connection.InsecureSkipVerify = "", "", true
	if up, said := told(t, target, secrets); !up[0] || !up[1] || up[2] {
		t.Errorf("without a check: %v, it said %s", up, said)
	}
	target.Connection.InsecureSkipVerify = false
	if up, said := told(t, target, secrets); up[0] || up[1] || !strings.Contains(said, "failed to verify certificate") {
		t.Errorf("without the authority: %v, it said %s", up, said)
	}
}

// The target's proxy is used only for the target's own machines.
func TestServersBehindTheTargetsProxy(t *testing.T) {
	proxy, direct := &page{}, &page{}
	gateway, other := httptest.NewServer(proxy), httptest.NewServer(direct)
	defer gateway.Close()
	defer other.Close()
	up, said := told(t, &spatev1.Target{
		Endpoints: []string{"http://llm.example.com"}, Connection: &spatev1.Connection{Proxy: gateway.URL,
			ProxyAuth: "env:AUTH"},
		ServerMetrics: &spatev1.ServerMetrics{Urls: []string{"http://llm.example.com:8081/metrics",
			other.URL + "/metrics"}},
	}, map[string]string{"env:AUTH": "user:word"})
	if !up[0] || !up[1] {
		t.Fatalf("%v, it said %s", up, said)
	}
	if q := proxy.asked(t); q.URL.String() != "http://llm.example.com:8081/metrics" ||
		q.Header.Get("Proxy-Authorization") != "Basic dXNlcjp3b3Jk" {
		t.Errorf("the proxy was asked for %s with %v", q.URL, q.Header)
	}
	if q := direct.asked(t); q.URL.IsAbs() || q.Header.Get("Proxy-Authorization") != "" {
		t.Errorf("the other was asked for %s with %v", q.URL, q.Header)
	}
}

// An invalid certificate is reported before the stage starts.
func TestServersOfABadCertificate(t *testing.T) {
	s := &Stage{Assigned: &spatev1.Stage{Target: &spatev1.Target{
		Name: "t", Endpoints: []string{"https://h"}, Connection: &spatev1.Connection{Ca: "file:ca"},
		ServerMetrics: &spatev1.ServerMetrics{},
	}}}
	config, err := s.clientConfig(map[string]string{"file:ca": "x"})
	if err != nil {
		t.Fatal(err)
	}
	err = s.watchServers(t.Context(), []uint32{0}, config, &Resources{})
	if err == nil || !strings.Contains(err.Error(),
		"target t: connection.ca contains no certificate in PEM") {
		t.Errorf("it says %v", err)
	}
}
