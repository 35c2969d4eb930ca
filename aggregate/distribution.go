package aggregate

import (
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Distribution summarizes values. Their unit is the suffix of the field that holds the distribution, such as _ms.
type Distribution struct {
	// Arithmetic mean, from the exact sum of the values.
	Mean float64 `json:"mean"`
	// Population standard deviation, from the exact sum of squares.
	Std float64 `json:"std"`
	// Smallest value, exact.
	Min float64 `json:"min"`
	// Largest value, exact.
	Max float64 `json:"max"`
	// Median. All percentiles come from the merged histogram, to 3 significant digits.
	P50 float64 `json:"p50"`
	// 90th percentile.
	P90 float64 `json:"p90"`
	// 95th percentile.
	P95 float64 `json:"p95"`
	// 99th percentile.
	P99 float64 `json:"p99"`
	// 99.9th percentile.
	P99_9 float64 `json:"p99_9"`
	// Number of values.
	Count uint64 `json:"count"`
}

// distribution summarizes the values of a metric. It returns nil if there are none.
func (t *tally) distribution(m spatev1.Metric) *Distribution {
	return distributionOf(t.values[m], measure.Of(m).Unit.Scale())
}

// shownPercentiles are the percentiles of a Distribution, in the order of its fields.
var shownPercentiles = [...]float64{50, 90, 95, 99, 99.9}

// distributionOf summarizes a histogram, dividing its values by scale. It returns nil if the histogram has no values.
func distributionOf(h *histogram.Histogram, scale float64) *Distribution {
	if h == nil || h.Count() == 0 {
		return nil
	}
	var at [len(shownPercentiles)]int64
	h.Percentiles(shownPercentiles[:], at[:])
	percentile := func(i int) float64 { return float64(at[i]) / scale }
	return &Distribution{
		Mean:  h.Mean() / scale,
		Std:   h.Std() / scale,
		Min:   float64(h.Min()) / scale,
		Max:   float64(h.Max()) / scale,
		P50:   percentile(0),
		P90:   percentile(1),
		P95:   percentile(2),
		P99:   percentile(3),
		P99_9: percentile(4),
		Count: h.Count(),
	}
}

// latency summarizes the values of a metric for a breakdown. It returns nil if there are none.
func (t *tally) latency(m spatev1.Metric) *Latency {
	d := t.distribution(m)
	if d == nil {
		return nil
	}
	return &Latency{Count: d.Count, Mean: d.Mean, P50: d.P50, P90: d.P90, P99: d.P99}
}
