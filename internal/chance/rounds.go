package chance

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// Rounds is how values of several sides, each measured once in each round from the first one on, some in more rounds
// than others, make the differences between the sides. They are fitted by least squares with a level for each side, a
// level for each round, and a drift: what NewTurns does for two sides whose rounds are blocks. All values say how far
// they are off the fit.
type Rounds struct {
	values, at      []float64 // without the drift; times
	sides           [][]int
	spent, variance float64 // the sum of squares that the drift was found with; the variance of a value
	freedom         int
}

// leastFreedom is the least number of degrees of freedom from which anything follows.
const leastFreedom = 2

// NewRounds fits values measured at times. side and round say where each belongs, those of a side in the order of
// rounds. It returns nil if they are too few.
func NewRounds(values, at []float64, side, round []int) *Rounds {
	r := &Rounds{at: at, sides: blocksOf(side)}
	rounds := blocksOf(round)
	if r.freedom = len(values) - len(r.sides) - len(rounds); r.freedom < leastFreedom {
		return nil
	}
	y, t := offLevels(values, r.sides, rounds), offLevels(at, r.sides, rounds)
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

// offLevels returns values less the levels of sides and of rounds. Where sides have as many rounds, centring by each
// once is that; else it is repeated until nothing changes (von Neumann's alternating projections).
func offLevels(values []float64, sides, rounds [][]int) []float64 {
	const most, small = 1000, 1e-9
	scale := floats.Norm(values, 2)
	for range most {
		before := values
		values = centred(centred(values, sides), rounds)
		if floats.Distance(values, before, 2) <= small*scale {
			break
		}
	}
	return values
}

// Difference returns how much larger the values of one side are than those of another in the rounds of both, without
// the drift, and the spread of that. Sides count from 0, in the order of their first values.
func (r *Rounds) Difference(side, other int) (float64, Spread) {
	many := min(len(r.sides[side]), len(r.sides[other]))
	a, b := r.sides[side][:many], r.sides[other][:many]
	square := 2 / float64(len(a))
	if apart := meanOf(r.at, a) - meanOf(r.at, b); r.spent > 0 {
		square += apart * apart / r.spent
	}
	return meanOf(r.values, a) - meanOf(r.values, b),
		Spread{Error: math.Sqrt(r.variance * square), Freedom: float64(r.freedom)}
}
