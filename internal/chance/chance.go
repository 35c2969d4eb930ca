// Package chance tells how far chance alone may move a difference between two measurements: its standard error, its
// interval, and the probability of a difference as large. It is pure, and draws no random numbers.
package chance

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mathext"
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
	return min(1, above((size-within)/s.Error, s.Freedom)+above((size+within)/s.Error, s.Freedom))
}

// power is the probability with which Detectable finds a difference.
const power = 0.8

// Reach returns how many standard errors a difference must lie beyond the tolerance so that a test at a level finds it
// four times in five.
func (s Spread) Reach(level float64) float64 {
	return quantile(1-level/2, s.Freedom) + quantile(power, s.Freedom)
}

// Student's t by the incomplete beta function (Abramowitz, Stegun 1964, 26.7.1). Gonum's distributions have it, and
// would add 2 MB of linear algebra to the program.

// above returns the probability that t is above x.
func above(x, freedom float64) float64 {
	tail := mathext.RegIncBeta(freedom/2, 0.5, freedom/(freedom+x*x)) / 2
	if x < 0 {
		return 1 - tail
	}
	return tail
}

// quantile returns the quantile p of t. p is above 0.5.
func quantile(p, freedom float64) float64 {
	x := mathext.InvRegIncBeta(freedom/2, 0.5, 2*(1-p))
	return math.Sqrt(freedom * (1 - x) / x)
}

// Share returns the 95 % confidence interval of a share of n, which must be above 0 (Wilson 1927).
func Share(share, n float64) (low, high float64) {
	const z = 1.96
	middle := (share + z*z/(2*n)) / (1 + z*z/n)
	margin := z / (1 + z*z/n) * math.Sqrt(share*(1-share)/n+z*z/(4*n*n))
	if share == 0 || share == 1 { // without the error of rounding
		return max(share-2*margin, 0), min(share+2*margin, 1)
	}
	return middle - margin, middle + margin
}

// Shares returns the difference between two shares, of which parts of wholes are counted, and its spread. One more of
// each kind is added to both, so that a share of 0 is not taken for certain (Agresti, Caffo 2000).
func Shares(part, whole, otherPart, otherWhole uint64) (difference float64, s Spread) {
	n, m := float64(whole)+2, float64(otherWhole)+2
	a, b := (float64(part)+1)/n, (float64(otherPart)+1)/m
	return a - b, Spread{Error: math.Sqrt(a*(1-a)/n + b*(1-b)/m), Freedom: n + m - 2}
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
	n := float64(len(values))
	return mean(values), Spread{Error: math.Sqrt(variance(values) / n), Freedom: n - 1}
}

func mean(values []float64) float64 { return floats.Sum(values) / float64(len(values)) }

// variance is that of what the values are a sample of.
func variance(values []float64) float64 {
	from, n := slices.Clone(values), float64(len(values))
	floats.AddConst(-mean(values), from)
	return floats.Dot(from, from) / (n - 1)
}

// Repeats returns the spread of the difference between the means of two groups of repeated measurements, b - a, by
// Welch's method (Welch 1947): the groups may vary differently. Both need two values or more.
func Repeats(a, b []float64) Spread {
	va, vb := variance(a)/float64(len(a)), variance(b)/float64(len(b))
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

// Turns is how the values of stages of two sides make the difference between the sides, without a steady change over
// time. The values are fitted by least squares with a level for each block of stages, a difference and a drift. That is
// linear: the difference and the drift are weighted sums of the values.
type Turns struct {
	// Difference, Raw and Drift are the weights of the values: in the difference, in that of the sides' means without
	// regard to time, and in the change in a unit of time.
	Difference, Raw, Drift []float64
	// Freedom is the number of degrees of freedom with which the values say how far they are off the fit.
	Freedom int
	// InTurns reports whether the sides took turns, so that time and side can be told apart.
	InTurns bool

	side, time []float64 // of the stages, less the means of their blocks
	blocks     [][]int   // stages of each block
}

const (
	// mostShared is the largest share of the variance in time that the sides may explain, of sides in turns. A B B A
	// has 0, A B A B 0.2, A A B B 0.8.
	mostShared = 0.5
	// inseparable is the share from which on a difference cannot be told from a drift at all: A B has 1.
	inseparable = 0.98
	// manyRounds is the number of rounds from which on each is a block of its own. Then only neighbours are compared,
	// so that a change over time need not be steady, at the price of a degree of freedom for each round.
	manyRounds = 4
)

// NewTurns returns the turns of stages: theirs says which side a stage is of, at when it was, run and round where it
// belongs. It returns nil if the difference cannot be told from a drift, or if a side has fewer than two stages.
// Without at, the times do not matter: one stage of a side is then enough.
func NewTurns(theirs []bool, at []float64, run, round []int) *Turns {
	n := [2]int{}
	side, raw := make([]float64, len(theirs)), make([]float64, len(theirs))
	for i, is := range theirs {
		if is {
			side[i] = 1
		}
		n[int(side[i])]++
	}
	if fewest := min(n[0], n[1]); fewest == 0 || fewest == 1 && at != nil {
		return nil
	}
	for i := range raw {
		raw[i] = (2*side[i] - 1) / float64(n[int(side[i])])
	}
	if at == nil {
		zero, one := make([]float64, len(raw)), blocksOf(make([]int, len(raw)))
		return &Turns{Difference: raw, Raw: raw, Drift: zero, Freedom: len(raw) - 2, InTurns: true,
			side: centred(side, one), time: zero, blocks: one}
	}
	whole := fit(side, at, raw, run)
	if whole != nil && whole.InTurns && min(n[0], n[1]) >= manyRounds {
		if near := fit(side, at, raw, round); near != nil && near.InTurns {
			return near
		}
	}
	return whole
}

// fit finds the weights, with a level for each number in block.
func fit(side, at, raw []float64, block []int) *Turns {
	t := &Turns{Raw: raw, blocks: blocksOf(block)}
	t.side, t.time = centred(side, t.blocks), centred(at, t.blocks)
	ss, tt, st := floats.Dot(t.side, t.side), floats.Dot(t.time, t.time), floats.Dot(t.side, t.time)
	t.Freedom = len(side) - len(t.blocks) - 2
	if t.Freedom < 1 || ss == 0 || tt == 0 || st*st > inseparable*ss*tt {
		return nil
	}
	t.InTurns = st*st <= mostShared*ss*tt
	det := ss*tt - st*st
	for i := range side {
		t.Difference = append(t.Difference, (tt*t.side[i]-st*t.time[i])/det)
		t.Drift = append(t.Drift, (ss*t.time[i]-st*t.side[i])/det)
	}
	return t
}

// blocksOf returns the places of each number.
func blocksOf(numbers []int) (blocks [][]int) {
	place := map[int]int{}
	for i, b := range numbers {
		if _, known := place[b]; !known {
			place[b] = len(place)
			blocks = append(blocks, nil)
		}
		blocks[place[b]] = append(blocks[place[b]], i)
	}
	return blocks
}

// centred returns values less the mean of their block.
func centred(values []float64, blocks [][]int) []float64 {
	out := make([]float64, len(values))
	for _, block := range blocks {
		mean := meanOf(values, block)
		for _, i := range block {
			out[i] = values[i] - mean
		}
	}
	return out
}

// meanOf returns the mean of the values of a block.
func meanOf(values []float64, block []int) (mean float64) {
	for _, i := range block {
		mean += values[i] / float64(len(block))
	}
	return mean
}

// Between returns the spread of a weighted sum of values, by how far they are off the fit.
func (t *Turns) Between(values, weights []float64) Spread {
	difference, drift := floats.Dot(t.Difference, values), floats.Dot(t.Drift, values)
	square := 0.0
	for i, v := range centred(values, t.blocks) {
		off := v - difference*t.side[i] - drift*t.time[i]
		square += off * off
	}
	freedom := float64(t.Freedom)
	return Spread{Error: math.Sqrt(square / freedom * floats.Dot(weights, weights)), Freedom: freedom}
}

// Grew reports whether the number of requests in flight, on average level, grew by more than chance explains: by more
// than three and a half standard deviations of independent requests. shape is that of the gaps between their starts.
func Grew(by uint64, level, shape float64) bool {
	const doubt = 3.5
	dispersion := 1.0
	if shape > 0 {
		dispersion = max(1, 1/shape)
	}
	return float64(by) > doubt*math.Sqrt(2*dispersion*max(1, level))
}
