// Package servermetrics merges the serving engines' own metrics of a stage, which agents read and send with their
// snapshots: samples by window, and accounts of the growth over the stage. It summarizes them, and compares the
// servers' account with what clients measured.
//
// The package does not know agents, snapshots of load, or ledgers. A Metrics is not safe for concurrent use.
package servermetrics

import (
	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// ServerResult holds the metrics of one server.
type ServerResult struct {
	// URL that the metrics were read from, without a password.
	URL string `json:"url"`
	// What the server does, as the plan says, such as prefill or decode. Empty: the plan does not say.
	Role string `json:"role"`
	// How often the server's metrics were read.
	Asked uint64 `json:"asked"`
	// How often the server did not answer in time, or not in Prometheus' text format.
	Failed uint64 `json:"failed"`
	// Values dropped because they exceeded the limit for one server, or because their growth is not known.
	ValuesLeftOut uint64 `json:"values_left_out"`
	// Time of the first reading of the server's counters and histograms, in seconds since the stage's start: before the
	// start, or at the end of a warm-up. Null: they were not read at both ends of the stage.
	FromS *float64 `json:"from_s"`
	// Time of the last reading, in seconds since the stage's start: after the last request of all agents.
	ToS *float64 `json:"to_s"`
	// True if the server was restarted between the two readings: what it had counted before is lost.
	Restarted bool `json:"restarted"`
	// Metrics of the server, sorted by name and labels.
	Metrics []ServerMetric `json:"metrics"`
}

// ServerMetric summarizes one series of a server.
type ServerMetric struct {
	// Name of the metric.
	Name string `json:"name"`
	// Labels as in Prometheus' text format, without the braces. Empty: the series has none.
	Labels string `json:"labels"`
	// Type of the metric: "gauge", "counter" or "histogram".
	Kind string `json:"kind"`
	// Number of readings of the series.
	Samples uint64 `json:"samples"`
	// Mean of a gauge's readings, or exact mean of the values that a histogram counted. Null: the series is a counter,
	// or has no values.
	Mean *float64 `json:"mean"`
	// Smallest of a gauge's readings. Null: the series is not a gauge.
	Min *float64 `json:"min"`
	// Largest of a gauge's readings. Null: the series is not a gauge.
	Max *float64 `json:"max"`
	// Growth of a counter from the first reading to the last, with restarts of the server accounted for. Null: the
	// series is not a counter, or has only one reading.
	Increase *float64 `json:"increase"`
	// Growth of a counter per second.
	PerSecond *float64 `json:"per_second"`
	// Number of values that a histogram counted, over all its labels. Null: the series is not a histogram.
	Count *uint64 `json:"count"`
	// Median of a histogram's values. Null: the series is not a histogram, or its buckets are not known.
	P50 *ServerQuantile `json:"p50"`
	// 90th percentile of a histogram's values.
	P90 *ServerQuantile `json:"p90"`
	// 99th percentile of a histogram's values.
	P99 *ServerQuantile `json:"p99"`
}

// hasGrowth reports whether an account has the growth of any series, that is, whether both readings succeeded.
func hasGrowth(a *spatev1.ServerAccount) bool { return len(a.GetCounters())+len(a.GetHistograms()) > 0 }

// accountResult returns the result of the account of a source.
func (v *Metrics) accountResult(url string, source uint32) ServerResult {
	a := v.accounts[source]
	r := ServerResult{
		URL: url, Asked: uint64(a.GetAsked()), Failed: uint64(a.GetFailed()), Restarted: a.GetRestarted(),
		Metrics:       []ServerMetric{},
		ValuesLeftOut: uint64(v.refused[source]) + uint64(a.GetLeftOut()),
	}
	if !hasGrowth(a) {
		return r
	}
	from, to := float64(a.GetFromNs())/nanosPerSecond, float64(a.GetToNs())/nanosPerSecond
	r.FromS, r.ToS = &from, &to
	for _, c := range a.GetCounters() {
		m := ServerMetric{Name: c.GetName(), Labels: c.GetLabels(), Kind: "counter", Samples: 2,
			Increase: new(c.GetIncrease())}
		if to > from {
			m.PerSecond = new(c.GetIncrease() / (to - from))
		}
		r.Metrics = append(r.Metrics, m)
	}
	r.Metrics = append(r.Metrics, lists.Each(a.GetHistograms(), histogramResult)...)
	return r
}

// histogramResult summarizes the growth of a histogram.
func histogramResult(h *spatev1.ServerHistogram) ServerMetric {
	m := ServerMetric{Name: h.GetName(), Kind: "histogram", Samples: 2, Count: new(h.GetCount())}
	if count := h.GetCount(); count > 0 {
		m.Mean = new(h.GetSum() / float64(count))
	}
	m.P50, m.P90, m.P99 = bucketQuantile(h, 0.5), bucketQuantile(h, 0.9), bucketQuantile(h, 0.99)
	return m
}

// ServerQuantile is a quantile of a histogram with buckets, in the unit of its metric. Only the bucket that contains
// the quantile is known for certain.
type ServerQuantile struct {
	// Quantile by linear interpolation within its bucket, as in Prometheus' histogram_quantile. Null: the quantile is
	// in the last bucket, which has no upper bound.
	Value *float64 `json:"value"`
	// Lower bound of the quantile's bucket. It is 0 for the first bucket, if that bucket's upper bound is above 0.
	// Null: the first bucket has no lower bound.
	Low *float64 `json:"low"`
	// Upper bound of the quantile's bucket. Null: the last bucket has no upper bound.
	High *float64 `json:"high"`
}

// bucketQuantile returns a quantile of a histogram, or nil if the histogram has no values or its buckets are not known.
// It is Prometheus' histogram_quantile (promql/quantile.go), except in the last bucket, for which Prometheus returns
// the lower bound as the value.
func bucketQuantile(h *spatev1.ServerHistogram, q float64) *ServerQuantile {
	if h.GetCount() == 0 || len(h.GetBounds()) == 0 {
		return nil
	}
	rank, below := q*float64(h.GetCount()), 0.0
	i := 0
	for ; i < len(h.GetBounds()) && (below+float64(h.GetCounts()[i]) < rank || h.GetCounts()[i] == 0); i++ {
		below += float64(h.GetCounts()[i])
	}
	bounds := h.GetBounds()
	if i == len(bounds) {
		return &ServerQuantile{Low: &bounds[i-1]}
	}
	high := bounds[i]
	switch {
	case i > 0:
		value := bounds[i-1] + (high-bounds[i-1])*(rank-below)/float64(h.GetCounts()[i])
		return &ServerQuantile{Value: &value, Low: &bounds[i-1], High: &high}
	case high > 0:
		return &ServerQuantile{Value: new(high * rank / float64(h.GetCounts()[0])), Low: new(0.0), High: &high}
	default:
		return &ServerQuantile{Value: &high, High: &high}
	}
}

const nanosPerSecond = 1e9
