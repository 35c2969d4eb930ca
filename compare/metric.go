package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/lists"
)

// Metric is a number of a stage that is compared.
type Metric struct {
	// Name is its path in a stage of results.json: "ttft_ms.p99".
	Name string
	// Title is its name in tables: "TTFT p99".
	Title string
	// Unit is its unit: "ms", "req/s", "tok/s", or "" for a share.
	Unit string
	// Higher reports whether a larger value is better.
	Higher bool
	// Share reports whether it is a share from 0 to 1, whose change is counted in points instead of percent of the
	// baseline.
	Share bool

	// series returns by how much each bin of a stage moves the value, given the value: relative to it, or in points if
	// it is a share. It returns nil if there are too few requests.
	series func(s *series, value float64) []float64
	// resolution is the standard error of a relative change by the width of the histograms' bins.
	resolution float64
}

// histogramResolution is that of two percentiles with 3 significant digits: two errors that are uniform over 0.1 %.
const histogramResolution = 0.001 / 2.449489742783178 // the square root of 12 / 2

// Metrics are the numbers that are compared, in the order of tables.
var Metrics = allMetrics()

// MetricNamed returns the metric of a name. The error lists all names.
func MetricNamed(name string) (*Metric, error) {
	names := lists.Each(Metrics, func(m Metric) string { return m.Name })
	if i := slices.Index(names, name); i >= 0 {
		return &Metrics[i], nil
	}
	return nil, fmt.Errorf("number %.60q: want one of %s", name, strings.Join(names, ", "))
}

// TitleOf returns a metric's name in tables.
func TitleOf(name string) string {
	all := slices.Concat(Metrics, economy[:])
	return cmp.Or(lists.Find(all, func(m Metric) bool { return m.Name == name }).Title, name)
}

func allMetrics() []Metric {
	all := []Metric{
		{Name: "request_throughput", Title: "req/s", Unit: "req/s", Higher: true,
			series: func(s *series, _ float64) []float64 { return relative(s.requests) }},
		{Name: "output_token_throughput", Title: "tok/s", Unit: "tok/s", Higher: true,
			series: func(s *series, _ float64) []float64 { return relative(s.tokens) }},
		{Name: "goodput.share", Title: "goodput", Higher: true, Share: true,
			series: func(s *series, _ float64) []float64 { return s.good.mean() }},
		{Name: errorShare, Title: "errors", Share: true,
			series: func(s *series, _ float64) []float64 { return s.failed.mean() }},
	}
	for which, l := range latencies {
		all = append(all, l.metrics(which)...)
	}
	return all
}

// errorShare is the share of failed requests in those that ended.
const errorShare = "error_share"

// value returns the metric of a stage. It returns nil if it is not known.
func (m *Metric) value(s *results.StageResult) *float64 {
	if m.Name != errorShare {
		return s.Number(m.Name)
	}
	ended := s.Requests.Completed + s.Requests.Failed
	if ended == 0 {
		return nil
	}
	return new(float64(s.Requests.Failed) / float64(ended))
}

// latency is a distribution of times.
type latency struct{ name, title string }

// latencies are the distributions that are compared, in the order of the values of a series.
var latencies = [...]latency{
	{"ttft_ms", "TTFT"}, {"tpot_ms", "TPOT"}, {"itl_ms", "ITL"}, {"e2e_ms", "E2E"},
}

// Places of the latencies.
const (
	ttft = iota
	tpot
	itl
	e2e
)

// percentiles are the percentiles that are compared.
var percentiles = [...]struct {
	name  string
	share float64
}{{"p50", 0.50}, {"p90", 0.90}, {"p99", 0.99}}

// metrics returns the mean and the percentiles of the latency at a place in latencies.
func (l latency) metrics(which int) []Metric {
	metric := func(name string, series func(*series, float64) []float64) Metric {
		return Metric{Name: l.name + "." + name, Title: l.title + " " + name, Unit: "ms", series: series}
	}
	all := []Metric{metric("mean", func(s *series, mean float64) []float64 {
		return scaled(s.latencies[which].mean(), 1/(mean*nanosPerMs))
	})}
	for i, p := range percentiles {
		m := metric(p.name, func(s *series, value float64) []float64 {
			return s.latencies[which].percentile(i, value*nanosPerMs, s.residence)
		})
		m.resolution = histogramResolution
		all = append(all, m)
	}
	return all
}

// DefaultTolerance is the largest change that does not matter unless a person says otherwise: two runs on one machine
// differ by some tenths of a percent for reasons that one run each cannot show.
const DefaultTolerance = "1%"

// DefaultMetric is the number that a history shows unless a person names another.
const DefaultMetric = "ttft_ms.p99"

// Tolerance returns the share that a percentage from 0 to below 100 stands for, such as "1%" or "0.5".
func Tolerance(percentage string) (share float64, err error) {
	number := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(percentage), "%"))
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v >= 0 && v < 100) {
		return 0, fmt.Errorf("%.40q: want a percentage from 0%% to below 100%%, for example 1%%", percentage)
	}
	return v / 100, nil
}
