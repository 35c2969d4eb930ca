package histogram

import (
	"fmt"
	"math"
	"strings"
)

// Few is a percentile beyond which fewer than ten values lie, by expectation: chance decides much of it.
type Few struct {
	// Percentile, by its name in the summary: "p99".
	Percentile string `json:"percentile"`
	// Lower end of its 95 % confidence interval. Null: there are too few values for one.
	Low *float64 `json:"low"`
	// Upper end of the interval. Null: it lies beyond all values.
	High *float64 `json:"high"`
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
				f.High = new(float64(min(high, h.Max())) / scale)
			}
			if 1-sum <= tail {
				if rank := n - k; rank >= 1 {
					low, _ := h.at(uint64(rank))
					f.Low = new(float64(max(low, h.Min())) / scale)
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
	for i := range s.Few {
		if s.Few[i].Percentile == percentile {
			return &s.Few[i]
		}
	}
	return nil
}
