package chance

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
)

// Of two sides, rounds say the same as turns whose blocks are rounds: the difference, its error, its freedom.
func TestRoundsOfTwoSidesAreTurns(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var theirs []bool
	var values, at []float64
	var run, side, round []int
	for i := range 2 {
		for k := range 6 {
			theirs, values = append(theirs, i == 1), append(values, random.NormFloat64())
			at = append(at, float64(2*k+(i+k)%2))
			run, side, round = append(run, 0), append(side, i), append(round, k)
		}
	}
	turns := NewTurns(theirs, at, run, round)
	spread := turns.Between(values, turns.Difference)
	difference, got := NewRounds(values, at, side, round).Difference(1, 0)
	if want := floats.Dot(turns.Difference, values); math.Abs(difference-want) > 1e-9 {
		t.Errorf("difference %v, turns say %v", difference, want)
	}
	if math.Abs(got.Error-spread.Error) > 1e-9 || got.Freedom != spread.Freedom {
		t.Errorf("spread %+v, turns say %+v", got, spread)
	}
}

// The interval of a difference holds the truth about as often as it says, with a drift and a level of each round.
func TestRoundsHoldTheTruth(t *testing.T) {
	const trials = 2000
	for _, c := range []struct{ sides, rounds, stay int }{{4, 2, 4}, {15, 2, 15}, {3, 5, 3}, {15, 5, 3}} {
		held := 0
		for seed := range uint64(trials) {
			random := rand.New(rand.NewPCG(seed, 9))
			var values, at []float64
			var side, round []int
			for k := range c.rounds {
				level := random.NormFloat64()
				for i := range c.sides {
					if k >= 2 && i >= c.stay {
						continue // it was dropped
					}
					place := i
					if k%2 == 1 {
						place = c.sides - 1 - i
					}
					when := float64(k*c.sides + place)
					side, round, at = append(side, i), append(round, k), append(at, when)
					values = append(values, float64(i)+level+0.1*when+0.3*random.NormFloat64())
				}
			}
			difference, spread := NewRounds(values, at, side, round).Difference(1, 0)
			if math.Abs(difference-1) <= spread.Margin(0.95) {
				held++
			}
		}
		if share := float64(held) / trials; share < 0.935 || share > 0.965 {
			t.Errorf("%d sides, %d rounds: held %.3f, want 0.95", c.sides, c.rounds, share)
		}
	}
	if NewRounds(make([]float64, 6), make([]float64, 6), []int{0, 0, 0, 1, 1, 1}, []int{0, 1, 2, 0, 1, 2}) != nil {
		t.Error("two sides in three rounds say something")
	}
}
