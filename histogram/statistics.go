package histogram

import "math"

// Count returns the number of values.
func (h *Histogram) Count() uint64 { return h.totals.count }

// Min returns the exact smallest value, 0 if there are none.
func (h *Histogram) Min() int64 {
	if h.totals.count == 0 {
		return 0
	}
	return int64(h.totals.min)
}

// Max returns the exact largest value, 0 if there are none.
func (h *Histogram) Max() int64 { return int64(h.totals.max) }

// Sum returns the exact sum of the values.
func (h *Histogram) Sum() Uint128 { return h.totals.sum }

// SumOfSquares returns the exact sum of the values' squares.
func (h *Histogram) SumOfSquares() Uint128 { return h.totals.squares }

// Mean returns the mean of the exact values, not of their bins. It is NaN without values.
func (h *Histogram) Mean() float64 { return h.totals.sum.Float64() / float64(h.totals.count) }

// Std returns the population standard deviation of the exact values (divided by n, like numpy's std). It is NaN without
// values.
func (h *Histogram) Std() float64 {
	spread, _ := h.totals.spread()
	return math.Sqrt(spread.float64()) / float64(h.totals.count)
}

// spread returns n x sum of squares - sum^2, which is n^2 times the variance, and false if this is negative, which no
// values can cause. It is exact, so there is no cancellation however close together the values lie. With at most 2^44
// values below 2^42 the sum is below 2^86 and both products are below 2^172.
func (t totals) spread() (uint192, bool) {
	return t.squares.times(t.count).sub(t.sum.square())
}

// Percentile returns the value that p percent of the values do not exceed: the largest value of the bin that holds the
// value of rank ceil(p/100 x n), like HdrHistogram's getValueAtPercentile, but never above Max. p is clamped to 0 to
// 100. For p = 0 the result is Min, without values it is 0.
func (h *Histogram) Percentile(p float64) int64 {
	if h.totals.count == 0 || !(p > 0) {
		return h.Min()
	}
	rank, seen := h.rank(p), uint64(0)
	for index, n := range h.bins {
		if seen += n; seen >= rank {
			_, high := h.geometry.span(index)
			return int64(min(high, h.totals.max))
		}
	}
	return h.Max()
}

// Percentiles writes the percentiles ps, which must ascend, into values. The results are those of Percentile, computed
// in one walk over the bins.
func (h *Histogram) Percentiles(ps []float64, values []int64) {
	done, seen := 0, uint64(0)
	for ; done < len(ps) && (h.totals.count == 0 || !(ps[done] > 0)); done++ {
		values[done] = h.Min()
	}
	for index, n := range h.bins {
		for seen += n; done < len(ps) && seen >= h.rank(ps[done]); done++ {
			_, high := h.geometry.span(index)
			values[done] = int64(min(high, h.totals.max))
		}
		if done == len(ps) {
			return
		}
	}
}

// rank returns the rank of the percentile's value, from 1. The step to the next lower float keeps a p such as 99.9,
// which is not exact in binary, from being rounded up to the next rank.
func (h *Histogram) rank(p float64) uint64 {
	share := min(math.Nextafter(p, math.Inf(-1)), 100)
	rank := math.Ceil(share * float64(h.totals.count) / 100)
	return min(max(uint64(rank), 1), h.totals.count)
}
