package histogram

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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
func (t totals) spread() (uint192, bool) { return t.squares.times(t.count).sub(t.sum.square()) }

// Percentile returns the value that p percent of the values do not exceed: the largest value of the bin that holds the
// value of rank ceil(p/100 x n), like HdrHistogram's getValueAtPercentile, but never above Max. p is clamped to 0 to
// 100. For p = 0 the result is Min, without values it is 0.
func (h *Histogram) Percentile(p float64) int64 {
	if h.totals.count == 0 || !(p > 0) {
		return h.Min()
	}
	_, high := h.at(h.rank(p))
	return high
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

// leastBeyond is how many values Interval needs, by expectation, on either side of a percentile. The binomial
// distribution is then close enough to the normal distribution.
const leastBeyond = 10

// LeastForInterval returns the smallest number of values for which Interval returns a percentile's confidence interval.
func LeastForInterval(p float64) uint64 {
	return uint64(math.Ceil(leastBeyond / min(p/100, 1-p/100) * (1 - 1e-12)))
}

// Interval returns a confidence interval of a percentile. It returns false if there are too few values: fewer than
// LeastForInterval, or so few that an end of the interval would lie beyond all values. p must be above 0 and below 100,
// confidence above 0 and below 1.
//
// The interval is between two order statistics and assumes nothing about the values' distribution. The number of values
// below the percentile is binomial with mean n p and variance n p (1 - p), so the values of the ranks n p -+ z sqrt(n p
// (1 - p)) enclose the percentile with the given confidence, where z is the normal distribution's quantile (Conover,
// Practical Nonparametric Statistics, 3.2). The values are taken to be independent. If they are not, as in a queue, the
// true interval is wider.
func (h *Histogram) Interval(p, confidence float64) (low, high int64, ok bool) {
	n := h.totals.count
	if !(p > 0 && p < 100 && confidence > 0 && confidence < 1) || n < LeastForInterval(p) {
		return 0, 0, false
	}
	share := p / 100
	centre := float64(n) * share
	reach := math.Sqrt2 * math.Erfinv(confidence) * math.Sqrt(centre*(1-share))
	below, above := math.Floor(centre-reach), math.Ceil(centre+reach)+1
	if below < 1 || above > float64(n) {
		return 0, 0, false // the interval has no end among the values
	}
	low, _ = h.at(uint64(below))
	_, high = h.at(uint64(above))
	return low, high, true
}

// at returns the ends of the bin that holds the value of a rank, between Min and Max. Ranks are from 1 to Count.
func (h *Histogram) at(rank uint64) (low, high int64) {
	seen := uint64(0)
	for index, n := range h.bins {
		if seen += n; seen >= rank {
			low, high := h.geometry.span(index)
			return int64(max(low, h.totals.min)), int64(min(high, h.totals.max))
		}
	}
	return h.Max(), h.Max()
}

// Few is a percentile beyond which fewer than ten values lie, by expectation: chance decides much of it.
type Few struct {
	// Percentile, by its name in the summary: "p99".
	Percentile string `json:"percentile"`
	// Lower end of its 95 % confidence interval. Null: there are too few values for one.
	Low *float64 `json:"low"`
	// Upper end of the interval. Null: it lies beyond all values.
	High *float64 `json:"high"`
}

// Words returns the interval in words: "4.40 to 9.12", "from 320.10", "unknown".
func (f *Few) Words() string {
	switch {
	case f.Low == nil && f.High == nil:
		return "unknown"
	case f.High == nil:
		return fmt.Sprintf("from %.2f", *f.Low)
	case f.Low == nil:
		return fmt.Sprintf("to %.2f", *f.High)
	}
	return fmt.Sprintf("%.2f to %.2f", *f.Low, *f.High)
}

// few returns the percentiles of a summary that have few values beyond them.
//
// The interval is between two order statistics and assumes nothing about the distribution of the values, which are
// taken to be independent: of n values, the number above a percentile of share q is binomial, with n and 1 - q
// (Conover, Practical Nonparametric Statistics, 3.2).
func (h *Histogram) few(scale float64) (list []Few) {
	n := float64(h.Count())
	for _, p := range summaryPercentiles {
		beyond := 1 - p/100
		if n*beyond >= leastBeyond*(1-1e-12) {
			continue
		}
		f := Few{Percentile: strings.ReplaceAll(fmt.Sprintf("p%g", p), ".", "_")}
		const tail = 0.025
		// k values above the percentile have the probability mass; at most k the probability sum.
		mass := math.Pow(1-beyond, n)
		for k, sum := 0.0, 0.0; k < n; k++ {
			if sum += mass; sum <= tail {
				_, high := h.at(uint64(n - k))
				f.High = new(float64(high) / scale)
			}
			if 1-sum <= tail {
				if rank := n - k; rank >= 1 {
					low, _ := h.at(uint64(rank))
					f.Low = new(float64(low) / scale)
				}
				break
			}
			mass *= (n - k) / (k + 1) * beyond / (1 - beyond)
		}
		list = append(list, f)
	}
	return list
}

// FewAt returns the entry of a percentile by its name, or nil if enough values lie beyond it.
func (s *Summary) FewAt(percentile string) *Few {
	if s == nil {
		return nil
	}
	return lists.First(s.Few, func(f *Few) bool { return f.Percentile == percentile })
}

// Uint128 is an exact sum: High x 2^64 + Low.
type Uint128 struct {
	High, Low uint64
}

// Float64 returns u as a float. Its error is at most one rounding of each half and of their sum.
func (u Uint128) Float64() float64 { return math.Ldexp(float64(u.High), 64) + float64(u.Low) }

// Less reports whether u is less than v.
func (u Uint128) Less(v Uint128) bool { return u.High < v.High || u.High == v.High && u.Low < v.Low }

// Add returns u + v. The count limit of a histogram keeps its sums below 2^128.
func (u Uint128) Add(v Uint128) Uint128 {
	low, carry := bits.Add64(u.Low, v.Low, 0)
	return Uint128{High: u.High + v.High + carry, Low: low}
}

// sub returns u - v, for v <= u.
func (u Uint128) sub(v Uint128) Uint128 {
	low, borrow := bits.Sub64(u.Low, v.Low, 0)
	return Uint128{High: u.High - v.High - borrow, Low: low}
}

// scale returns u x n, which must fit.
func (u Uint128) scale(n uint64) Uint128 {
	high, low := bits.Mul64(u.Low, n)
	return Uint128{High: high + u.High*n, Low: low}
}

// product returns a x b.
func product(a, b uint64) Uint128 {
	high, low := bits.Mul64(a, b)
	return Uint128{High: high, Low: low}
}

// proto returns u as a message.
func (u Uint128) proto() *spatev1.Uint128 { return &spatev1.Uint128{High: u.High, Low: u.Low} }

// uint128 reads a message. Nil is zero.
func uint128(m *spatev1.Uint128) Uint128 { return Uint128{High: m.GetHigh(), Low: m.GetLow()} }

// uint192 holds products of sums, least significant word first.
type uint192 [3]uint64

// times returns u x n.
func (u Uint128) times(n uint64) uint192 {
	low, high := product(u.Low, n), product(u.High, n)
	middle, carry := bits.Add64(low.High, high.Low, 0)
	return uint192{low.Low, middle, high.High + carry}
}

// square returns u^2, for u below 2^96.
func (u Uint128) square() uint192 {
	s, cross := u.times(u.Low), u.times(u.High)
	var carry uint64
	s[1], carry = bits.Add64(s[1], cross[0], 0)
	s[2] += cross[1] + carry
	return s
}

// sub returns u - v, and false if that is negative.
func (u uint192) sub(v uint192) (d uint192, ok bool) {
	var borrow uint64
	for i := range u {
		d[i], borrow = bits.Sub64(u[i], v[i], borrow)
	}
	return d, borrow == 0
}

// float64 returns u with the rounding of three additions.
func (u uint192) float64() float64 {
	return math.Ldexp(float64(u[2]), 128) + math.Ldexp(float64(u[1]), 64) + float64(u[0])
}
