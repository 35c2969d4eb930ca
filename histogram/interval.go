package histogram

import "math"

// leastBeyond is how many values have to be expected on either side of a percentile for Interval: the binomial
// distribution is close enough to the normal one then.
const leastBeyond = 10

// LeastForInterval returns the smallest number of values of which Interval knows a percentile's confidence interval.
func LeastForInterval(p float64) uint64 {
	return uint64(math.Ceil(leastBeyond / min(p/100, 1-p/100) * (1 - 1e-12)))
}

// Interval returns a confidence interval of a percentile, false if there are too few values to tell: fewer than
// LeastForInterval. p is above 0 and below 100, confidence above 0 and below 1.
//
// It is the interval between two order statistics, which asks nothing of the values' distribution: the number of values
// below the percentile is binomial with mean n p and variance n p (1 - p), so that the values of the ranks n p -+ z
// sqrt(n p (1 - p)) enclose it with the confidence, z being the normal distribution's quantile (Conover, Practical
// Nonparametric Statistics, 3.2). It takes the values for independent: where they are not, as in a queue, the true
// interval is wider.
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

// at returns the ends of the bin in which the value of a rank lies, from 1 to Count.
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
