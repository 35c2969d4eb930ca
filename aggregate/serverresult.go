package aggregate

import (
	"fmt"
	"math"
	"slices"

	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// addAccounts adds the server accounts of a snapshot. One agent reads each source, and sends its account once.
func (v *servers) addAccounts(accounts []*spatev1.ServerAccount) {
	for _, a := range accounts {
		if v.accounts == nil {
			v.accounts = map[uint32]*spatev1.ServerAccount{}
		}
		v.accounts[a.GetSource()] = a
	}
}

// hasGrowth reports whether an account has the growth of any series, that is, whether both readings succeeded.
func hasGrowth(a *spatev1.ServerAccount) bool { return len(a.GetCounters())+len(a.GetHistograms()) > 0 }

// accountResult returns the result of the account of a source.
func (v *servers) accountResult(url string, source uint32) ServerResult {
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
		m := ServerMetric{Name: c.GetName(), Labels: c.GetLabels(), Kind: "counter", Samples: 2}
		increase := c.GetIncrease()
		m.Increase = &increase
		if to > from {
			rate := increase / (to - from)
			m.PerSecond = &rate
		}
		r.Metrics = append(r.Metrics, m)
	}
	for _, h := range a.GetHistograms() {
		r.Metrics = append(r.Metrics, histogramResult(h))
	}
	return r
}

// histogramResult summarizes the growth of a histogram.
func histogramResult(h *spatev1.ServerHistogram) ServerMetric {
	count := h.GetCount()
	m := ServerMetric{Name: h.GetName(), Kind: "histogram", Samples: 2, Count: &count}
	if count > 0 {
		mean := h.GetSum() / float64(count)
		m.Mean = &mean
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
		low := 0.0
		value := high * rank / float64(h.GetCounts()[0])
		return &ServerQuantile{Value: &value, Low: &low, High: &high}
	default:
		return &ServerQuantile{Value: &high, High: &high}
	}
}

// checkServerAccounts checks the accounts that an agent sends.
func checkServerAccounts(accounts []*spatev1.ServerAccount, target *spatev1.Target) error {
	if len(accounts) == 0 {
		return nil
	}
	sources, seen := len(plans.ServerSources(target)), map[uint32]bool{}
	for _, a := range accounts {
		switch {
		case int(a.GetSource()) >= sources:
			return fmt.Errorf("server account: source %d: the target has %d", a.GetSource(), sources)
		case seen[a.GetSource()]:
			return fmt.Errorf("server account of source %d: given twice", a.GetSource())
		case !withinStage(a.GetFromNs()) || !withinStage(a.GetToNs()):
			return fmt.Errorf("server account of source %d: from %d to %d ns of the stage", a.GetSource(),
				a.GetFromNs(), a.GetToNs())
		}
		seen[a.GetSource()] = true
		if err := checkServerAccount(a); err != nil {
			return fmt.Errorf("server account of source %d: %w", a.GetSource(), err)
		}
	}
	return nil
}

// withinStage reports whether a time can belong to a stage.
func withinStage(ns int64) bool {
	return ns <= MaxWindow*nanosPerSecond && ns >= -MaxWindow*nanosPerSecond
}

// checkServerAccount checks the series of an account.
func checkServerAccount(a *spatev1.ServerAccount) error {
	if len(a.GetCounters()) > plans.MaxServerCounters || len(a.GetHistograms()) > plans.MaxServerHistograms {
		return fmt.Errorf("%d counters and %d histograms: at most %d and %d are taken",
			len(a.GetCounters()), len(a.GetHistograms()), plans.MaxServerCounters, plans.MaxServerHistograms)
	}
	seen := map[serverKey]bool{}
	for _, c := range a.GetCounters() {
		key := serverKey{name: c.GetName(), labels: c.GetLabels()}
		switch {
		case !rightTexts(key) || seen[key]:
			return fmt.Errorf("counter %.80q of %d bytes with labels of %d: empty, too long or given twice", key.name,
				len(key.name), len(key.labels))
		case !(math.Abs(c.GetIncrease()) <= plans.MaxServerValue):
			return fmt.Errorf("counter %.80q grew by %v", key.name, c.GetIncrease())
		}
		seen[key] = true
	}
	for _, h := range a.GetHistograms() {
		key := serverKey{name: h.GetName(), labels: "histogram"}
		if !rightTexts(key) || seen[key] {
			return fmt.Errorf("histogram %.80q: its name is empty, too long or given twice", key.name)
		}
		seen[key] = true
		if err := checkServerHistogram(h); err != nil {
			return fmt.Errorf("histogram %.80q: %w", key.name, err)
		}
	}
	return nil
}

// rightTexts reports whether a series has a name, and its name and labels are not too long.
func rightTexts(key serverKey) bool {
	return key.name != "" && len(key.name) <= plans.MaxServerName && len(key.labels) <= plans.MaxServerLabels
}

// checkServerHistogram checks that the numbers of a histogram are consistent.
func checkServerHistogram(h *spatev1.ServerHistogram) error {
	bounds, counts := h.GetBounds(), h.GetCounts()
	switch {
	case h.GetCount() > plans.MaxServerCount || !(math.Abs(h.GetSum()) <= plans.MaxServerValue):
		return fmt.Errorf("%d values of %v together", h.GetCount(), h.GetSum())
	case len(bounds) > plans.MaxServerBuckets || len(counts) != 0 && len(counts) != len(bounds)+1 || len(bounds) > 0 &&
		len(counts) == 0:
		return fmt.Errorf("%d bounds and %d counts", len(bounds), len(counts))
	case !slices.IsSorted(bounds) ||
		slices.ContainsFunc(bounds, func(b float64) bool { return !(math.Abs(b) <= plans.MaxServerValue) }):
		return fmt.Errorf("bounds %v do not rise, or are no numbers", bounds)
	}
	sum := uint64(0)
	for _, n := range counts {
		if sum += n; n > plans.MaxServerCount || sum > h.GetCount() {
			return fmt.Errorf("its buckets hold more than its %d values", h.GetCount())
		}
	}
	if len(counts) > 0 && sum != h.GetCount() {
		return fmt.Errorf("its buckets hold %d of its %d values", sum, h.GetCount())
	}
	return nil
}
