package chance

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// Rounds is how values of several sides, each measured once in each of several rounds, make the differences between the
// sides. They are fitted by least squares with a level for each side, a level for each round, and a drift: what
// NewTurns does for two sides whose rounds are blocks. All sides say how far values are off the fit.
type Rounds struct {
	values, at      []float64 // without the drift; times
	sides           [][]int
	spent, variance float64 // the sum of squares that the drift was found with; the variance of a value
	freedom         int
}

// leastFreedom is the least number of degrees of freedom from which anything follows.
const leastFreedom = 2

// NewRounds fits values measured at times. side and round say where each belongs: each side has one in each round. It
// returns nil if they are too few.
func NewRounds(values, at []float64, side, round []int) *Rounds {
	r := &Rounds{at: at, sides: blocksOf(side)}
	rounds := blocksOf(round)
	if r.freedom = (len(r.sides)-1)*(len(rounds)-1) - 1; r.freedom < leastFreedom {
		return nil
	}
	y, t := centred(centred(values, r.sides), rounds), centred(centred(at, r.sides), rounds)
	drift := 0.0
	if r.spent = floats.Dot(t, t); r.spent > 0 {
		drift = floats.Dot(t, y) / r.spent
	}
	r.values = make([]float64, len(values))
	for i, v := range values {
		off := y[i] - drift*t[i]
		r.values[i] = v - drift*at[i]
		r.variance += off * off / float64(r.freedom)
	}
	return r
}

// Difference returns how much larger the values of one side are than those of another, without the drift, and the
// spread of that. Sides count from 0, in the order of their first values.
func (r *Rounds) Difference(side, other int) (float64, Spread) {
	a, b := r.sides[side], r.sides[other]
	square := 2 / float64(len(a))
	if apart := meanOf(r.at, a) - meanOf(r.at, b); r.spent > 0 {
		square += apart * apart / r.spent
	}
	return meanOf(r.values, a) - meanOf(r.values, b),
		Spread{Error: math.Sqrt(r.variance * square), Freedom: float64(r.freedom)}
}
