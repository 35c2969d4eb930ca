package chance

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

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
func NewTurns(theirs []bool, at []float64, run, round []int) *Turns {
	n := [2]int{}
	side, raw := make([]float64, len(theirs)), make([]float64, len(theirs))
	for i, is := range theirs {
		if is {
			side[i] = 1
		}
		n[int(side[i])]++
	}
	if min(n[0], n[1]) < 2 {
		return nil
	}
	for i := range raw {
		raw[i] = (2*side[i] - 1) / float64(n[int(side[i])])
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
	t := &Turns{Raw: raw}
	place := map[int]int{}
	for i, b := range block {
		if _, known := place[b]; !known {
			place[b] = len(place)
			t.blocks = append(t.blocks, nil)
		}
		t.blocks[place[b]] = append(t.blocks[place[b]], i)
	}
	t.side, t.time = t.centred(side), t.centred(at)
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

// centred returns values less the mean of their block.
func (t *Turns) centred(values []float64) []float64 {
	out := make([]float64, len(values))
	for _, block := range t.blocks {
		mean := 0.0
		for _, i := range block {
			mean += values[i] / float64(len(block))
		}
		for _, i := range block {
			out[i] = values[i] - mean
		}
	}
	return out
}

// Between returns the spread of a weighted sum of values, by how far they are off the fit.
func (t *Turns) Between(values, weights []float64) Spread {
	difference, drift := floats.Dot(t.Difference, values), floats.Dot(t.Drift, values)
	square := 0.0
	for i, v := range t.centred(values) {
		off := v - difference*t.side[i] - drift*t.time[i]
		square += off * off
	}
	freedom := float64(t.Freedom)
	return Spread{Error: math.Sqrt(square / freedom * floats.Dot(weights, weights)), Freedom: freedom}
}
