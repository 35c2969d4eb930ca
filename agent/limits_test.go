package agent

import (
	"math"
	"net/url"
	"strings"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestAllowedHosts(t *testing.T) {
	for _, c := range []struct {
		pattern, endpoint string
		want              bool
	}{
		{"*.example.com", "http://a.example.com/v1", true},
		{"*.example.com", "https://A.Example.COM:8443", true},
		{"*.example.com", "http://example.com", false},
		{"*.example.com", "http://a.example.com.evil.org", false},
		{"10.0.0.?", "http://10.0.0.7:8000", true},
		{"10.0.0.?", "http://10.0.0.77", false},
		{"host:8000", "http://host:8000", true},
		{"host:8000", "http://host:8001", false},
		{"host:443", "https://host/path", true},
		{"host:80", "http://host", true},
		{"host", "http://allowed@other", false},
		{"::1", "http://[::1]:80", true},
	} {
		u, err := url.Parse(c.endpoint)
		if err != nil {
			t.Fatal(err)
		}
		if got := (limits{targets: []string{"nothing", c.pattern}}).allows(u); got != c.want {
			t.Errorf("%s allows %s: %t", c.pattern, c.endpoint, got)
		}
	}
}

// All requests go to a proxy first: an agent that may not send anything there must not take the target on.
func TestAllowedProxy(t *testing.T) {
	l := limits{targets: []string{"*.example.com", "proxy:3128"}}
	for proxy, want := range map[string]bool{"": true, "http://proxy:3128": true, "http://proxy:8080": false, "http://evil.org": false} {
		err := l.checkTargets(&spatev1.Target{Endpoints: []string{"http://a.example.com"}, Connection: &spatev1.Connection{Proxy: proxy}})
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), proxy) {
			t.Errorf("proxy %q: %v", proxy, err)
		}
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
		l := limits{maxStreams: c.maxStreams, fileShares: c.fileShares}
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
