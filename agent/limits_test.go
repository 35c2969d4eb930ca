package agent

import (
	"context"
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/spate-load/spate/agent/allow"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// All requests go to the proxy first: an agent that may not send to the proxy must reject the target.
func TestAllowedProxy(t *testing.T) {
	l := limits{targets: allowing(t, "*.example.com", "10.0.0.1", "proxy:3128"),
		resolver: fixed{"proxy": "10.0.0.2", "evil.org": "10.0.0.9"}}
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

// The agent looks a name up once, before the stage. Connections use the addresses found then, even if the name changes
// later.
func TestNamesArePinned(t *testing.T) {
	e := newEngine(t, 0, 0)
	stage := stageOf(&spatev1.LoadPoint{Concurrency: 3, Requests: 12}, e)
	stage.Target.Endpoints = []string{strings.Replace(e.URL, "127.0.0.1", "llm.invalid", 1)}
	l := limits{targets: allowing(t, "llm.invalid"), resolver: fixed{"llm.invalid": "127.0.0.1"}}
	if o := begin(t, assignOf(stage, 0), l).wait(t); o.totals.GetCounters().GetCompleted() != 12 {
		t.Errorf("totals %v", o.totals)
	}
	l.targets = allowing(t, "10.0.0.0/8")
	if _, err := prepare(t.Context(), assignOf(stage, 0), resourcesOf(l)); err == nil ||
		!strings.Contains(err.Error(), "llm.invalid, which has the address 127.0.0.1") {
		t.Errorf("a name outside of the network: %v", err)
	}
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
		l := limits{maxStreams: c.maxStreams, agentsInProcess: c.fileShares}
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
