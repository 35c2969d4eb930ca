// Package servermetrics says what a plan reads from the serving engines' own metrics: from where, which metrics and how
// often, and the limits on what is taken. Agents read by it, and the coordinator refuses what is beyond the limits.
package servermetrics

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

//go:embed metrics.txt
var metrics string

var (
	gpuMetrics           = section("gpus")
	defaultServerMetrics = section("default")
	accountHistograms    = section("histograms")
	accountCounters      = section("counters")
)

// section returns the names in a section of metrics.txt.
func section(name string) []string {
	_, after, _ := strings.Cut(metrics, "\n["+name+"]\n")
	return strings.Fields(after[:strings.IndexAny(after+"[", "[#")])
}

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
	return lists.Each(t.GetEndpoints()[:min(len(t.GetEndpoints()), MaxSources)], naming.Metrics)
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

// Fill fills in which metrics are read. m may be nil.
func Fill(m *spatev1.ServerMetrics) {
	if m != nil && len(m.GetNames()) == 0 {
		m.Names = defaultServerMetrics
	}
}

// Increase returns what a counter grew by. A counter that decreased restarted at 0, as in Prometheus' increase().
func Increase(before, after float64) float64 {
	if after < before {
		return after
	}
	return after - before
}

// GPUMetrics returns the names of the metrics that are read from exporters of GPU metrics, the most important first.
func GPUMetrics() []string { return slices.Clone(gpuMetrics) }

// GPUSources returns the numbers of a target's sources that are exporters of GPU metrics: those in [from, to).
func GPUSources(t *spatev1.Target) (from, to int) {
	to = len(Sources(t))
	return to - len(t.GetServerMetrics().GetGpuUrls()), to
}

// IsGPUSource reports whether the source with a number is an exporter of GPU metrics.
func IsGPUSource(t *spatev1.Target, number uint32) bool {
	from, to := GPUSources(t)
	return int(number) >= from && int(number) < to
}

// Limits on what is read from one server. The agent keeps to them, and the coordinator refuses more.
const (
	// MaxSources is the most addresses at which a target's server metrics are scraped.
	MaxSources = 64
	// MaxSeries is the most series of gauges and counters taken from one source at a time.
	MaxSeries = 64
	// MaxCounters is the most series of counters in the account of one source.
	MaxCounters = 128
	// MaxHistograms is the most histograms in the account of one source, counting each label set of a name.
	MaxHistograms = 32
	// MaxBuckets is the most buckets of a histogram. Of a histogram with more, only count and sum are taken.
	MaxBuckets = 128
	// MaxName bounds the name of a metric, in bytes.
	MaxName = 256
	// MaxLabels bounds the text of a series' labels, in bytes.
	MaxLabels = 512
	// MaxValue bounds the absolute value of samples, so that no sum over a stage overflows.
	MaxValue = 1e300
	// MaxCount bounds the values of a histogram: the largest count that a number in Prometheus' text form holds
	// exactly.
	MaxCount = 1 << 53
)

// Names of series that describe the reading itself, beside what the server reports.
const (
	// Up is 1 if the server answered, else 0.
	Up = "up"
	// Dropped is the number of series beyond MaxSeries. The series exists only if there were any.
	Dropped = "scrape_series_left_out"
)

// Added returns the sum of two histograms, and does not change them. The sum has buckets only if both have the same.
// The first may be nil.
func Added(a, b *spatev1.ServerHistogram) *spatev1.ServerHistogram {
	if a == nil || a.GetCount() == 0 {
		return b
	}
	if b.GetCount() == 0 {
		return a
	}
	sum := &spatev1.ServerHistogram{Name: a.GetName(), Count: a.GetCount() + b.GetCount(), Sum: a.GetSum() + b.GetSum()}
	if len(a.GetBounds()) > 0 && slices.Equal(a.GetBounds(), b.GetBounds()) {
		sum.Bounds, sum.Counts = a.GetBounds(), slices.Clone(a.GetCounts())
		for i, n := range b.GetCounts() {
			sum.Counts[i] += n
		}
	}
	return sum
}
