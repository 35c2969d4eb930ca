package plans

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Values of ServerMetrics.read.
const (
	readSeconds = "seconds"
	readEnds    = "ends"
	readNever   = "never"
)

// ServerSources returns the addresses at which a target's server metrics are scraped, in the order of their numbers:
// those that the plan names, or /metrics at each of the first 64 endpoints. It returns nil if the plan says never.
func ServerSources(t *spatev1.Target) []string {
	m := t.GetServerMetrics()
	switch {
	case m.GetRead() == readNever:
		return nil
	case len(m.GetUrls()) > 0:
		return m.GetUrls()
	}
	var sources []string
	for _, e := range t.GetEndpoints()[:min(len(t.GetEndpoints()), MaxServerSources)] {
		sources = append(sources, baseURL(e)+"/metrics")
	}
	return sources
}

// ReadsEachSecond reports whether a target's server metrics are read each second of a stage, and not only at its ends.
func ReadsEachSecond(t *spatev1.Target) bool {
	m := t.GetServerMetrics()
	return m != nil && (m.GetRead() == "" || m.GetRead() == readSeconds)
}

// NamesServerMetrics reports whether a plan asks for a target's server metrics. Otherwise they are read if there are
// any, and it is not an error if there are none.
func NamesServerMetrics(t *spatev1.Target) bool { return t.GetServerMetrics() != nil }

// AccountMetrics returns the names of the counters and histograms whose growth over a stage is recorded, the most
// important first.
func AccountMetrics(t *spatev1.Target) []string {
	return slices.Concat(accountHistograms, defaultServerMetrics, accountCounters, t.GetServerMetrics().GetNames())
}

// BesideEndpoint reports whether an address is on the host of one of a target's endpoints, on any port. Such an address
// is reached with the settings of the target's connection.
func BesideEndpoint(t *spatev1.Target, address string) bool {
	host := hostname(address)
	return host != "" && slices.ContainsFunc(t.GetEndpoints(),
		func(endpoint string) bool { return strings.EqualFold(hostname(endpoint), host) })
}

// hostname returns the host of a URL without its port, or "" if the address is not a URL.
func hostname(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// fillServerMetrics fills in which metrics are read.
func fillServerMetrics(m *spatev1.ServerMetrics) {
	if m == nil {
		return
	}
	if len(m.GetNames()) == 0 {
		m.Names = defaultServerMetrics
	}
	m.Read = cmp.Or(m.GetRead(), readSeconds)
}

// serverMetrics checks where server metrics are scraped.
func (c *checker) serverMetrics(path string, t *spatev1.Target) {
	m := t.GetServerMetrics()
	if m == nil {
		return
	}
	if m.GetRead() == readNever {
		c.readNever(path, m)
		return
	}
	if n := len(t.GetEndpoints()); len(m.GetUrls()) == 0 && n > MaxServerSources {
		c.wrong(path, fmt.Sprintf("at most %d servers are asked for their metrics, and the target has %d endpoints: name them by urls", MaxServerSources, n))
	}
	for i, text := range m.GetUrls() {
		if problem := metricsProblem(text); problem != "" {
			c.wrong(fmt.Sprintf("%s.urls[%d]", path, i), problem)
		}
	}
}

// readNever refuses names and addresses of metrics that are never read.
func (c *checker) readNever(path string, m *spatev1.ServerMetrics) {
	if len(m.GetUrls()) > 0 || len(m.GetNames()) > 0 {
		c.wrong(path+".read", "never does not go with urls or names: leave them out, or read seconds or ends")
	}
}

// metricsProblem returns what is wrong with an address of metrics, or "" if nothing is. It never repeats the address,
// which may hold a password.
func metricsProblem(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "":
		return "must be a URL like http://localhost:8000/metrics"
	case u.User != nil:
		return "must not contain a user or password: api_key and headers go to the hosts of the target's endpoints"
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return "must not contain a query (?...) or a fragment (#...)"
	case !validPort(u):
		return "must have a port from 1 to 65535, or none"
	}
	return ""
}
