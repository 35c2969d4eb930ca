// Package servermetrics says what a plan reads from the serving engines' own metrics: from where, which metrics and how
// often, and the limits on what is taken. Agents read by it, and the coordinator refuses what is beyond the limits.
package servermetrics

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Values of ServerMetrics.read. The third is "ends".
const (
	readSeconds = "seconds"
	// ReadNever reads nothing.
	ReadNever = "never"
)

// Sources returns the addresses at which a target's server metrics are scraped, in the order of their numbers: those
// that the plan names, or /metrics at each of the first MaxSources endpoints, and then the exporters of GPU metrics. It
// returns nil if the plan says never.
func Sources(t *spatev1.Target) []string {
	m := t.GetServerMetrics()
	if m.GetRead() == ReadNever {
		return nil
	}
	return slices.Concat(serverSources(t), m.GetGpuUrls())
}

// serverSources returns the addresses of the metrics of servers, without those of GPUs.
func serverSources(t *spatev1.Target) []string {
	if urls := t.GetServerMetrics().GetUrls(); len(urls) > 0 {
		return urls
	}
	var sources []string
	for _, e := range t.GetEndpoints()[:min(len(t.GetEndpoints()), MaxSources)] {
		sources = append(sources, naming.BaseURL(e)+"/metrics")
	}
	return sources
}

// EachSecond reports whether a target's server metrics are read each second of a stage, and not only at its ends.
func EachSecond(t *spatev1.Target) bool {
	m := t.GetServerMetrics()
	return m != nil && (m.GetRead() == "" || m.GetRead() == readSeconds)
}

// Asked reports whether a plan asks for a target's server metrics. Otherwise they are read if there are any, and it is
// not an error if there are none.
func Asked(t *spatev1.Target) bool { return t.GetServerMetrics() != nil }

// Account returns the names of the counters and histograms whose growth over a stage is recorded, the most important
// first.
func Account(t *spatev1.Target) []string {
	return slices.Concat(accountHistograms, defaultServerMetrics, accountCounters, t.GetServerMetrics().GetNames())
}

// OnEndpointHost reports whether an address is on the host of one of a target's endpoints, on any port. Such an address
// is reached with the settings of the target's connection.
func OnEndpointHost(t *spatev1.Target, address string) bool {
	host := naming.Hostname(address)
	return host != "" && slices.ContainsFunc(t.GetEndpoints(),
		func(e string) bool { return strings.EqualFold(naming.Hostname(e), host) })
}

// Fill fills in which metrics are read, and when. m may be nil.
func Fill(m *spatev1.ServerMetrics) {
	if m == nil {
		return
	}
	if len(m.GetNames()) == 0 {
		m.Names = defaultServerMetrics
	}
	m.Read = cmp.Or(m.GetRead(), readSeconds)
}
