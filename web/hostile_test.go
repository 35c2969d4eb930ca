package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// silent opens connections that ask for a path and never read.
func (s *site) silent(path string, count int) {
	s.t.Helper()
	var dialer net.Dialer
	for range count {
		conn, err := dialer.DialContext(s.t.Context(), "tcp", s.Listener.Addr().String())
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { _ = conn.Close() })
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
			s.t.Fatal(err)
		}
	}
}

// A thousand viewers that never read delay neither a run nor another viewer, and the server closes all the same.
func TestViewersThatNeverRead(t *testing.T) {
	s := start(t)
	s.server.perViewer = maxStreams // they are of one address
	s.silent("/api/v1/runs/live/events?windows=true", 1000)
	s.wait("1,000 streams", func() bool { return len(s.server.streams) == 1000 })
	s.silent("/api/v1/runs/later/events", 5)
	s.wait("5 more", func() bool { return len(s.server.streams) == 1005 })
	begin := time.Now()
	for range 5 {
		s.fake.add("live", notice("to each of the thousand"))
	}
	text := strings.Repeat("x", 1<<20)
	for range 12 { // more than a socket holds
		s.fake.add("later", notice(text))
	}
	s.fake.add("later", ended())
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the run's events took %v", took)
	}
	if _, got := s.do("GET", "/api/v1/runs/later/events", ""); !strings.Contains(got, "event: run_ended") {
		t.Errorf("another viewer has %d bytes, without the end", len(got))
	}
}

// Streams beyond the limit are refused, and requests that are no streams are still answered.
func TestTooManyStreams(t *testing.T) {
	s := start(t)
	s.server.streams = make(chan struct{}, 3)
	s.silent("/api/v1/runs/live/events", 3)
	s.wait("3 streams", func() bool { return len(s.server.streams) == 3 })
	a, text := s.do("GET", "/api/v1/runs/live/events", "")
	if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
		t.Errorf("%s %s", a.Status, text)
	}
	if got := s.code("GET", "/api/v1/runs"); got != http.StatusOK {
		t.Errorf("a list: %d", got)
	}
}

// One viewer has at most a quarter of all streams.
func TestStreamsOfOneViewer(t *testing.T) {
	s := start(t)
	s.server.perViewer = 3
	s.silent("/api/v1/runs/live/events", 3)
	s.wait("3 streams", func() bool { return len(s.server.streams) == 3 })
	if a, text := s.do("GET", "/runs/live/parts", ""); a.StatusCode != http.StatusServiceUnavailable ||
		!strings.Contains(text, "3 streams are open") {
		t.Errorf("one more: %d %s", a.StatusCode, text)
	}
	if got := s.code("GET", "/runs/live"); got != http.StatusOK {
		t.Errorf("a page: %d", got)
	}
}

// Silent connections of one address, however many, leave room for those of another one.
func TestSilentConnectionsOfOneAddress(t *testing.T) {
	s := start(t)
	s.server.http.ReadHeaderTimeout, s.server.http.ReadTimeout = 0, 0 // they do not end by themselves
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(l, nil) }()
	for i := range 2100 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(i, err)
		}
		defer conn.Close()
	}
	other := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{
		LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)},
	}).DialContext}}
	a, err := other.Get("http://" + l.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Body.Close(); err != nil || a.StatusCode != http.StatusOK {
		t.Errorf("%s, %v", a.Status, err)
	}
	other.CloseIdleConnections()
	if err := errors.Join(s.server.Close(), <-served); err != nil {
		t.Error(err)
	}
}

// Requests have limits: their heads, their plans, and the time in which they must come.
func TestLimitsOfRequests(t *testing.T) {
	s := start(t)
	a, _ := s.do("GET", "/api/v1/runs", "", "X-Large", strings.Repeat("x", 64<<10))
	if a.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a large head: %s", a.Status)
	}
	a, text := s.do("POST", "/api/v1/runs", strings.Repeat("#", maxPlan+1))
	if a.StatusCode != http.StatusRequestEntityTooLarge || s.fake.called() != "" {
		t.Errorf("a large plan: %s %s", a.Status, text)
	}
	for name, d := range map[string]time.Duration{"head": s.Config.ReadHeaderTimeout, "request": s.Config.ReadTimeout,
		"idle": s.Config.IdleTimeout, "answer": s.Config.WriteTimeout} {
		if d <= 0 {
			t.Errorf("no limit on the time of the %s", name)
		}
	}
}

// A viewer that leaves ends its stream.
func TestViewersLeave(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	a, err := s.Client().Do(s.request("GET", "/api/v1/runs/live/events", "").WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	s.wait("a stream", func() bool { return len(s.server.streams) == 1 })
	cancel()
	s.wait("no stream", func() bool { return len(s.server.streams) == 0 })
}

// wait waits until something is so.
func (s *site) wait(what string, so func() bool) {
	s.t.Helper()
	for begin := time.Now(); !so(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 30*time.Second {
			s.t.Fatalf("still not: %s", what)
		}
	}
}
