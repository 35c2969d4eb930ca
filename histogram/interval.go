package histogram

import "math"

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
	return max(low, h.Min()), min(high, h.Max()), true
}

// at returns the ends of the bin that holds the value of a rank. Ranks are from 1 to Count.
func (h *Histogram) at(rank uint64) (low, high int64) {
	seen := uint64(0)
	for index, n := range h.bins {
		if seen += n; seen >= rank {
			low, high := h.geometry.span(index)
			return int64(low), int64(high)
		}
	}
	return h.Max(), h.Max()
}
