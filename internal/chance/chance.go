// Package chance tells how far chance alone may move a difference between two measurements: its standard error, its
// interval, and the probability of a difference as large. It is pure, and draws no random numbers.
package chance

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Spread is the standard error of a difference, and how well that error itself is known.
type Spread struct {
	// Error is the standard error, in the unit of the difference.
	Error float64
	// Freedom is the number of degrees of freedom of Student's t that the difference over its error follows.
	Freedom float64
	// Block is the number of values of a series that were kept together; 0: the spread is not that of a series.
	Block int
}

// Margin is half the width of the interval that contains the difference with a confidence (0 to 1).
func (s Spread) Margin(confidence float64) float64 {
	return s.Error * quantile(1-(1-confidence)/2, s.Freedom)
}

// Beyond returns the probability that chance moves a difference this far from zero or farther, if in truth it is at
// most within (at least 0) in size. The null hypothesis is an interval, so that a difference can be certain and yet too
// small to matter (Murphy, Myors: Statistical Power Analysis, 1998: minimum-effect tests).
func (s Spread) Beyond(difference, within float64) float64 {
	size := math.Abs(difference)
	if s.Error == 0 {
		if size > within {
			return 0
		}
		return 1
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: s.Freedom}
	return min(1, t.Survival((size-within)/s.Error)+t.Survival((size+within)/s.Error))
}

// power is the probability with which Detectable finds a difference.
const power = 0.8

// Reach returns how many standard errors a difference must lie beyond the tolerance so that a test at a level finds it
// four times in five.
func (s Spread) Reach(level float64) float64 {
	return quantile(1-level/2, s.Freedom) + quantile(power, s.Freedom)
}

// quantile returns a quantile of Student's t.
func quantile(p, freedom float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Quantile(p)
}

// Holm adjusts the probabilities of several tests so that the chance of even one false alarm among all of them stays
// below the level (Holm 1979). The result is in the order of ps.
func Holm(ps []float64) []float64 {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ps[a], ps[b]) })
	adjusted, most := make([]float64, len(ps)), 0.0
	for rank, i := range order {
		most = max(most, min(1, ps[i]*float64(len(ps)-rank)))
		adjusted[i] = most
	}
	return adjusted
}

// Mean returns the mean of repeated measurements, two or more, and its spread.
func Mean(values []float64) (float64, Spread) {
	mean, std := stat.MeanStdDev(values, nil)
	n := float64(len(values))
	return mean, Spread{Error: std / math.Sqrt(n), Freedom: n - 1}
}

// Repeats returns the spread of the difference between the means of two groups of repeated measurements, b - a, by
// Welch's method (Welch 1947): the groups may vary differently. Both need two values or more.
func Repeats(a, b []float64) Spread {
	va, vb := stat.Variance(a, nil)/float64(len(a)), stat.Variance(b, nil)/float64(len(b))
	freedom := float64(len(a) + len(b) - 2)
	if va+vb > 0 {
		freedom = (va + vb) * (va + vb) / (va*va/float64(len(a)-1) + vb*vb/float64(len(b)-1))
	}
	return Spread{Error: math.Sqrt(va + vb), Freedom: freedom}
}

// Both returns the spread of a difference that varies within its stages and also from stage to stage. between is the
// spread by the stages as they are, which holds both, but is known from few of them; within that of the stages' own
// time. What between has beyond within is added to it, and counts with the degrees of freedom of between
// (Satterthwaite 1946).
func Both(within, between Spread) Spread {
	own := within.Error * within.Error
	more := max(0, between.Error*between.Error-own)
	if own+more == 0 {
		return within
	}
	all := own + more
	return Spread{Error: math.Sqrt(all), Freedom: all * all / (own*own/within.Freedom + more*more/between.Freedom),
		Block: within.Block}
}
