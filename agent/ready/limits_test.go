package ready

import (
	"context"
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/spate-load/spate/agent/allow"
	"github.com/spate-load/spate/agent/enginetest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// All requests go to the proxy first: an agent that may not send to the proxy must reject the target.
func TestAllowedProxy(t *testing.T) {
	l := Limits{Targets: allowing(t, "*.example.com", "10.0.0.1", "proxy:3128"),
		Resolver: fixed{"proxy": "10.0.0.2", "evil.org": "10.0.0.9"}}
	for proxy, want := range map[string]bool{"http://proxy:3128": true, "http://proxy:8080": false,
		"http://evil.org": false} {
		_, err := l.checkTargets(t.Context(), &spatev1.Target{Endpoints: []string{"http://a.example.com"},
			Connection: &spatev1.Connection{Proxy: proxy}})
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), proxy) {
			t.Errorf("proxy %q: %v", proxy, err)
		}
	}
}

// allowing returns a list of valid entries.
func allowing(t *testing.T, entries ...string) allow.List {
	t.Helper()
	l, err := allow.Parse(entries)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// fixed is a resolver with one address for each name.
type fixed map[string]string

func (f fixed) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	a, err := netip.ParseAddr(f[host])
	return []netip.Addr{a}, err
}

func TestStreamsByFiles(t *testing.T) {
	for _, c := range []struct {
		maxStreams uint32
		fileShares int
		files      files
		want       int
		advertised uint32
	}{
		{0, 0, files{limit: 1024, open: 60}, 900, 900},
		{0, 4, files{limit: 1024, open: 60}, 225, 225},
		{100, 1, files{limit: 1024, open: 60}, 100, 100},
		{5000, 1, files{limit: 1024, open: 60}, 900, 900},
		{0, 1, files{limit: 100, open: 99}, 1, 1},
		{0, 1, files{limit: math.MaxInt}, math.MaxInt - spareFiles, 0},
	} {
		l := Limits{MaxStreams: c.maxStreams, AgentsInProcess: c.fileShares}
		if got := l.streams(c.files); got != c.want {
			t.Errorf("%+v of %+v: %d streams, not %d", l, c.files, got, c.want)
		}
		if got := l.advertised(c.files); got != c.advertised {
			t.Errorf("%+v of %+v: advertises %d, not %d", l, c.files, got, c.advertised)
		}
		if c.files.limit > 100 && (l.checkStreams(c.want, c.files) != nil || l.checkStreams(c.want+1, c.files) == nil) {
			t.Errorf("%+v of %+v: takes on other than %d", l, c.files, c.want)
		}
	}
}

func TestRejections(t *testing.T) {
	e := enginetest.New(t, 0, 0)
	gone := enginetest.New(t, 0, 0)
	gone.Close()
	closed := func(change func(*spatev1.Stage)) *spatev1.Assign {
		stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 3, Requests: 12}, e)
		change(stage)
		return enginetest.AssignOf(stage, 0)
	}
	for name, c := range map[string]struct {
		assign *spatev1.Assign
		limits Limits
		want   []string
	}{
		"dead endpoint": {
			closed(func(s *spatev1.Stage) { s.Target.Endpoints = append(s.Target.Endpoints, gone.URL) }), Limits{},
			[]string{gone.URL + " of target T does not answer: connection refused: start the server"},
		},
		"foreign host": {
			closed(func(*spatev1.Stage) {}), Limits{Targets: allowing(t, "*.example.com", "10.0.0.1")},
			[]string{"target T: endpoint " + e.URL, "allows load only to *.example.com, 10.0.0.1"},
		},
		"too many streams": {
			closed(func(*spatev1.Stage) {}), Limits{MaxStreams: 2},
			[]string{"3 requests in flight, this agent's limit is 2"},
		},
		"too many files": {
			closed(func(s *spatev1.Stage) { s.Load.Concurrency = 9_000_000 }), Limits{},
			[]string{"open files", "ulimit -n"},
		},
		"no endpoints": {
			closed(func(s *spatev1.Stage) { s.Target.Endpoints = nil }), Limits{},
			[]string{"target T: has no endpoints"},
		},
		"secret missing": {
			closed(func(s *spatev1.Stage) { s.Target.ApiKey = "env:KEY" }), Limits{},
			[]string{"target T: api_key: the value of env:KEY came neither with this assignment"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Prepare(t.Context(), c.assign, nil, resourcesOf(c.limits))
			if err == nil {
				t.Fatal("taken on")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

// The agent looks a name up once, before the stage. Connections use the addresses found then, although no name server
// knows the name.
func TestNamesArePinned(t *testing.T) {
	e := enginetest.New(t, 0, 0)
	stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 3, Requests: 12}, e)
	stage.Target.Endpoints = []string{strings.Replace(e.URL, "127.0.0.1", "llm.invalid", 1)}
	l := Limits{Targets: allowing(t, "llm.invalid"), Resolver: fixed{"llm.invalid": "127.0.0.1"}}
	s, err := Prepare(t.Context(), enginetest.AssignOf(stage, 0), nil, resourcesOf(l))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Client.Check(t.Context(), 0); err != nil {
		t.Error(err)
	}
	l.Targets = allowing(t, "10.0.0.0/8")
	if _, err := Prepare(t.Context(), enginetest.AssignOf(stage, 0), nil, resourcesOf(l)); err == nil ||
		!strings.Contains(err.Error(), "llm.invalid, which has the address 127.0.0.1") {
		t.Errorf("a name outside of the network: %v", err)
	}
}
