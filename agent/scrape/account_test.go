package scrape

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spate-load/spate/clock"
)

// counting is a server with a number of counted requests that a test controls.
type counting struct {
	requests atomic.Int64
	behind   atomic.Int64 // readings until the last ten requests are counted
	asked    atomic.Int64
	broken   atomic.Bool
	others   atomic.Bool // another client sends a request between any two readings
}

func (c *counting) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	c.asked.Add(1)
	if c.broken.Load() || q.URL.Path != "/metrics" {
		http.NotFound(w, q)
		return
	}
	if c.others.Load() {
		c.requests.Add(1)
	}
	n := c.requests.Load()
	if c.behind.Add(-1) >= 0 {
		n -= 10
	}
	fmt.Fprintf(w, "# TYPE h histogram\nh_bucket{le=\"1\"} %d\nh_bucket{le=\"+Inf\"} %d\nh_sum %d\nh_count %d\n", n, n,
		n, n)
}

func newCounting(t *testing.T) (*counting, *Scraper, *words) {
	c, said := &counting{}, &words{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	s := New(Config{Sources: []Source{{Number: 4, URL: server.URL + "/metrics"}}, Account: []string{"h"},
		OnFailure: said.complain})
	t.Cleanup(s.Close)
	return c, s, said
}

// The account covers the time from the last ReadBaseline until the counts have settled.
func TestAccountsCountFromBaselineUntilSettled(t *testing.T) {
	c, s, _ := newCounting(t)
	start := clock.Now()
	c.requests.Store(1000)
	s.ReadBaseline(t.Context())
	c.requests.Store(1100) // a warm-up
	s.ReadBaseline(t.Context())
	c.requests.Store(1420)
	c.behind.Store(1) // the first of the last readings is too early
	a := s.Accounts(t.Context(), start)[0]
	if h := a.GetHistograms()[0]; a.GetSource() != 4 || h.GetCount() != 320 || h.GetSum() != 320 ||
		a.GetFailed() != 0 || a.GetAsked() != 5 {
		t.Errorf("%v", a)
	}
	if a.GetFromNs() < 0 || a.GetToNs() <= a.GetFromNs() {
		t.Errorf("from %d to %d", a.GetFromNs(), a.GetToNs())
	}
}

// After a failed reading the account has no growth, and the failure is reported once.
func TestAccountsWithoutAReading(t *testing.T) {
	for name, broken := range map[string]struct{ first, last bool }{"first": {true, false}, "last": {false, true}} {
		c, s, said := newCounting(t)
		c.broken.Store(broken.first)
		s.ReadBaseline(t.Context())
		c.broken.Store(broken.last)
		a := s.Accounts(t.Context(), clock.Now())[0]
		if a.GetSource() != 4 || len(a.GetHistograms()) != 0 || a.GetFailed() == 0 || a.GetFailed() == a.GetAsked() ||
			len(said.texts) != 1 {
			t.Errorf("%s: %v, said %q", name, a, said.texts)
		}
	}
}

// A server that keeps counting, because it serves others, does not delay the stage.
func TestAccountsOfABusyServer(t *testing.T) {
	t.Parallel()
	c, s, _ := newCounting(t)
	s.ReadBaseline(t.Context())
	c.others.Store(true)
	a := s.Accounts(t.Context(), clock.Now())[0]
	if a.GetHistograms()[0].GetCount() != settleTries || a.GetAsked() != 1+settleTries {
		t.Errorf("%v", a)
	}
}

// Sources are also found at their other address. Optional sources without metrics are dropped.
func TestFind(t *testing.T) {
	mux := http.NewServeMux()
	page := func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "# TYPE h histogram\nh_sum 1\nh_count 1")
	}
	mux.HandleFunc("/a/metrics", page)
	// as TensorRT-LLM
	mux.HandleFunc("/b/metrics", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[{"iter": 3}]`) })
	mux.HandleFunc("/b/prometheus/metrics", page)
	mux.HandleFunc("/d/metrics", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "go_goroutines 7") })
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, optional := range []bool{true, false} {
		config := Config{Account: []string{"h"}, Optional: optional,
			OnFailure: func(string, error) { t.Error("it complains") }}
		for i, name := range []string{"a", "b", "c", "d"} {
			config.Sources = append(config.Sources, Source{
				Number: uint32(i), URL: server.URL + "/" + name + "/metrics", FallbackURL: server.URL + "/" + name +
					"/prometheus/metrics",
			})
		}
		s := New(config)
		missing := s.Find(t.Context())
		s.Close()
		if len(missing) != 2 || !strings.HasSuffix(missing[0].URL, "/c/metrics") ||
			!strings.Contains(missing[0].Err.Error(), "404") ||
			!strings.HasSuffix(missing[1].URL, "/d/metrics") || !errors.Is(missing[1].Err, errNoMetrics) {
			t.Fatalf("%v", missing)
		}
		if want := map[bool]int{true: 2, false: 4}[optional]; len(s.config.Sources) != want ||
			!strings.HasSuffix(s.config.Sources[1].URL, "/b/prometheus/metrics") {
			t.Errorf("optional %v: %v", optional, s.config.Sources)
		}
	}
}
