package histogram

import (
	"math"
	"sync"

	"github.com/spate-load/spate/measure"
)

// Summary summarizes values in the unit of results: milliseconds, tokens, or a ratio. It is nil where there are no
// values.
type Summary struct {
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
	// Percentiles beyond which fewer than ten values lie, with their confidence intervals. Absent: none.
	Few []Few `json:"few,omitempty"`
}

// At returns a statistic by its name in results.json: "mean", "p50", "p90", "p95" or "p99". Nil: it has none of that name,
// or there are no values.
func (s *Summary) At(statistic string) *float64 {
	if s == nil {
		return nil
	}
	return map[string]*float64{"mean": &s.Mean, "p50": &s.P50, "p90": &s.P90, "p95": &s.P95, "p99": &s.P99}[statistic]
}

// MeanOf returns the mean, nil of nil.
func MeanOf(s *Summary) *float64 { return s.At("mean") }

// MedianOf is MeanOf for the median.
func MedianOf(s *Summary) *float64 { return s.At("p50") }

// P95Of is MeanOf for the 95th percentile.
func P95Of(s *Summary) *float64 { return s.At("p95") }

// P99Of is MeanOf for the 99th percentile.
func P99Of(s *Summary) *float64 { return s.At("p99") }

// ShortSummary is the short form of a summary.
type ShortSummary struct {
	// Number of values.
	Count uint64 `json:"count"`
	// Arithmetic mean.
	Mean float64 `json:"mean"`
	// Median.
	P50 float64 `json:"p50"`
	// 90th percentile.
	P90 float64 `json:"p90"`
	// 99th percentile.
	P99 float64 `json:"p99"`
}

// summaryPercentiles are the percentiles of a Summary, in the order of its fields.
var summaryPercentiles = [...]float64{50, 90, 95, 99, 99.9}

// Summary summarizes the histogram, dividing its values by scale. It returns nil if the histogram is nil or has no
// values.
func (h *Histogram) Summary(scale float64) *Summary {
	if h == nil || h.Count() == 0 {
		return nil
	}
	var at [len(summaryPercentiles)]int64
	h.Percentiles(summaryPercentiles[:], at[:])
	percentile := func(i int) float64 { return float64(at[i]) / scale }
	return &Summary{
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
		Few:   h.few(scale),
	}
}

// Short returns the short form. It returns nil for nil.
func (s *Summary) Short() *ShortSummary {
	if s == nil {
		return nil
	}
	return &ShortSummary{Count: s.Count, Mean: s.Mean, P50: s.P50, P90: s.P90, P99: s.P99}
}

// Schema is the resolution of Exponential histograms: each bucket's upper bound is 2^(1/2^Schema) times its lower
// bound, which is 0.27 % more. It is the finest that Prometheus' native histograms have. OpenTelemetry calls it scale.
const Schema = 8

// bucketsPerDoubling is how many buckets cover a factor of two.
const bucketsPerDoubling = 1 << Schema

// Exponential is a distribution in exponential buckets, the form that Prometheus (native histograms) and OpenTelemetry
// have. Values are in base units: seconds, tokens, or a ratio. Bucket i holds values in (b^i, b^(i+1)] with
// b = 2^(1/2^Schema). An Exponential is not changed after it was made.
//
// Bins of a Histogram and these buckets do not coincide. All values of a bin count as the bin's highest value, as in
// Percentile. So the bucket that holds the value of a rank also holds what Percentile returns, and a quantile that is
// interpolated in that bucket is off from Percentile by less than the bucket's width.
type Exponential struct {
	// Count is the number of values, Sum their exact sum as the nearest float.
	Count uint64
	Sum   float64
	// Min and Max are exact. 0 without values.
	Min, Max float64
	// Zero is the number of values that are 0.
	Zero uint64
	// First is the index of the bucket Buckets[0].
	First int32
	// Buckets are the numbers of values, from the first bucket with values to the last. Empty if all values are 0.
	Buckets []uint64
}

// Exponential returns the distribution of the values, which are in a unit of the catalogue. It returns nil if the
// histogram is nil or has no values.
func (h *Histogram) Exponential(unit measure.Unit) *Exponential {
	if h == nil || h.Count() == 0 {
		return nil
	}
	base := unit.Base()
	e := &Exponential{
		Count: h.Count(), Sum: h.Sum().Float64() / base, Min: float64(h.Min()) / base, Max: float64(h.Max()) / base,
	}
	table := tables[unit]()
	last := bucketOf(e.Max)
	bucket := func(index int) int32 { return min(table[index], last) }
	begun := false
	for index, n := range h.bins {
		switch _, high := h.geometry.span(index); {
		case min(high, h.totals.max) == 0:
			e.Zero += n
			continue
		case !begun:
			begun, e.First = true, bucket(index)
			e.Buckets = make([]uint64, last-e.First+1)
		}
		e.Buckets[bucket(index)-e.First] += n
	}
	return e
}

// bucketOf returns the index of the bucket of a value above 0.
func bucketOf(value float64) int32 { return int32(math.Ceil(math.Log2(value)*bucketsPerDoubling)) - 1 }

// tables hold the bucket of each bin's highest value, by unit: logarithms are slow.
var tables = func() (all [measure.Thousandths + 1]func() []int32) {
	for unit, layout := range map[measure.Unit]Layout{
		measure.Nanoseconds: Times, measure.Tokens: Counts, measure.Thousandths: Counts,
	} {
		all[unit] = sync.OnceValue(func() []int32 { return newTable(&geometries[layout], unit.Base()) })
	}
	return all
}()

func newTable(g *geometry, base float64) []int32 {
	table := make([]int32, g.bins())
	for index := range table {
		if _, high := g.span(index); high > 0 {
			table[index] = bucketOf(float64(high) / base)
		}
	}
	return table
}
