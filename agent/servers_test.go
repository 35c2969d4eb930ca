package agent

import (
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Metrics beside an endpoint are read as the load is sent there, by its proxy and its authorities; those elsewhere see neither these nor the key.
func TestMetricsAreReadAsTheLoadIsSent(t *testing.T) {
	var keys [2]atomic.Value
	page := func(i int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			keys[i].Store(r.Header.Get("Authorization"))
			fmt.Fprintln(w, "a 1")
		}
	}
	endpoint := httptest.NewTLSServer(page(0))
	defer endpoint.Close()
	other := httptest.NewServer(page(1))
	defer other.Close()
	var tunnels, direct atomic.Int64
	proxy := httptest.NewServer(tunnelTo(t, &tunnels, &direct))
	defer proxy.Close()

	s := &share{stage: &spatev1.Stage{Target: &spatev1.Target{
		Name: "T", Endpoints: []string{endpoint.URL}, ApiKey: "env:KEY",
		Connection:    &spatev1.Connection{Proxy: proxy.URL, ProxyAuth: "env:PROXY", Ca: "file:ca.crt"},
		ServerMetrics: &spatev1.ServerMetrics{Urls: []string{endpoint.URL + "/metrics", other.URL + "/metrics"}, Names: []string{"a"}},
	}}}
	a := &spatev1.Assign{ServerSources: []uint32{0, 1}, Secrets: map[string]string{
		"env:KEY": "the-key", "env:PROXY": "user:word",
		"file:ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: endpoint.Certificate().Raw})),
	}}
	if err := s.watchServers(a, kitOf(limits{})); err != nil {
		t.Fatal(err)
	}
	end := (&load{share: s, start: clock.Now()}).scrape()
	var found map[uint32]bool
	eventually(t, "both pages", func() bool {
		for _, sample := range s.servers.Take(1 << 30) {
			if sample.GetName() == "a" {
				if found == nil {
					found = map[uint32]bool{}
				}
				found[sample.GetSource()] = true
			}
		}
		return len(found) == 2
	})
	end()
	if keys[0].Load() != "Bearer the-key" || keys[1].Load() != "" || tunnels.Load() == 0 || direct.Load() != 0 {
		t.Errorf("keys %v and %v, %d tunnels, %d other requests by the proxy", keys[0].Load(), keys[1].Load(), tunnels.Load(), direct.Load())
	}
}

// tunnelTo is a proxy that counts what it is asked for.
func tunnelTo(t *testing.T, tunnels, direct *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		want := url.UserPassword("user", "word")
		q := http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
		user, word, _ := q.BasicAuth()
		if password, _ := want.Password(); r.Method != http.MethodConnect || user != want.Username() || word != password || r.Header.Get("Authorization") != "" {
			direct.Add(1)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		tunnels.Add(1)
		to, err := net.Dial("tcp", r.Host)
		if err != nil {
			t.Error(err)
			return
		}
		defer to.Close()
		w.WriteHeader(http.StatusOK)
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		go func() { _, _ = io.Copy(to, c); to.Close() }()
		_, _ = io.Copy(c, to)
	}
}
