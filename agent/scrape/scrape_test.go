package scrape

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// words are what a scraper complained of.
type words struct {
	mu    sync.Mutex
	texts []string
}

func (w *words) complain(url string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, url+": "+err.Error())
}

// values are a source's values by name.
func values(samples []*spatev1.ServerSample, source uint32) map[string]float64 {
	out := map[string]float64{}
	for _, s := range samples {
		if s.GetSource() == source {
			out[s.GetName()] = s.GetValue()
		}
	}
	return out
}

// Each source is asked once a window. One that fails costs its own numbers only, and is said once.
func TestScrape(t *testing.T) {
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
		Names: []string{"a"}, Complain: said.complain,
		Sources: []Source{
			{Number: 3, URL: good.URL + "/metrics", Header: http.Header{"Authorization": {"Bearer k"}, "X-Team": {"a"}}},
			{Number: 5, URL: bad.URL}, {Number: 6, URL: long.URL},
		},
	})
	s.maxPage = 4000
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	// The stage began 41.9 s ago: windows 0 to 41 passed, and the next one begins soon.
	running.Go(func() { s.Run(ctx, clock.Now().Add(-41900*time.Millisecond), 0) })
	for range 3 {
		<-asks
	}
	cancel()
	running.Wait()
	first, rest := s.Take(0), s.Take(1000)
	if got := values(first, 3); got["a"] != 1 || got[Up] != 1 {
		t.Errorf("window 0: %v", got)
	}
	if got := values(rest, 3); got["a"] < 2 || got[Up] != 1 || len(s.Take(1000)) != 0 {
		t.Errorf("later: %v", got)
	}
	for _, source := range []uint32{5, 6} {
		if got := values(first, source); len(got) != 1 || got[Up] != 0 {
			t.Errorf("source %d: %v", source, got)
		}
	}
	all := strings.Join(said.texts, "\n")
	if len(said.texts) != 2 || !strings.Contains(all, "302 Found") || !strings.Contains(all, "longer than 4000 bytes") || strings.Contains(all, "Bearer") {
		t.Errorf("it said:\n%s", all)
	}
}

// A server that does not answer is given up in time for the window's snapshot.
func TestSlowServer(t *testing.T) {
	hold := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
	defer server.Close()
	defer close(hold)
	s := New(Config{Names: []string{"a"}, Complain: func(string, error) {}})
	samples, err := s.ask(t.Context(), Source{URL: server.URL})
	s.other.CloseIdleConnections()
	if err == nil || err.Error() != "no answer within 900ms" || len(samples) != 1 || samples[0].GetValue() != 0 {
		t.Errorf("%v, %v", samples, err)
	}
}

func TestSameHost(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"http://h:8000", "http://h:8000/metrics", true}, {"https://H", "https://h:443/metrics", true}, {"http://h", "http://h:80/m", true},
		{"http://h:8000", "http://h:8002/metrics", false}, {"http://h", "https://h/metrics", false}, {"http://h", "http://i/metrics", false},
		{"http://h", "://", false},
	} {
		if SameHost(c.a, c.b) != c.same {
			t.Errorf("%s and %s: not %v", c.a, c.b, c.same)
		}
	}
}
