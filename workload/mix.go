package workload

import (
	"errors"
	"fmt"
	"math"

	"github.com/spate-load/spate/schedule"
	"github.com/spate-load/spate/workload/draw"
)

// This file decides which part of a mixture each arrival of a stage belongs to: a pure function of the stage's seed
// and the arrival's index. So the split is the same with any number of agents, and an arrival that another agent takes
// over keeps its part.

// largestBlock is the largest number of arrivals in a block. A round number, because people ask for round numbers of
// requests: these then end with a block.
const largestBlock = 100

// mix divides the arrivals of a stage among parts by weight. It is immutable and may be used concurrently.
//
// Webster's method (package stripe) lays the parts out, and within each block the order is shuffled by the seed. So the
// split is exact at the end of each cycle of the weights (weights 7, 2 and 1 have a cycle of 10). At the end of each
// block of a longer cycle it is within half an arrival for each other part: Webster's numbers are quotients of the
// weights, rounded, so that what the others lack by rounding is at most that much. Without the shuffle, parts would
// repeat in step with the agents, or with the endpoints, which take arrivals in turn: one agent would send only one
// part.
type mix struct {
	pattern *schedule.Pattern
	block   uint64
	shuffle draw.Sequence
}

// newMix returns the mix of a stage. It returns an error as CheckWeights does.
func newMix(seed uint64, weights []float64) (*mix, error) {
	whole, err := wholeWeights(weights)
	if err != nil {
		return nil, err
	}
	pattern, err := schedule.NewPattern(whole, nil)
	if err != nil {
		return nil, errRange
	}
	return &mix{pattern: pattern, block: min(pattern.Cycle(), largestBlock), shuffle: draw.New(seed, "mix")}, nil
}

// Of returns the part that an arrival belongs to, and its number among the arrivals of that part, from 0. Each number
// belongs to one arrival; within a block, numbers are not in the order of the arrivals.
func (m *mix) Of(index uint64) (part int, number uint64) {
	start := index - index%m.block
	rank, number := m.pattern.Owner(start + m.shuffled(index/m.block, index%m.block))
	return int(rank), number
}

// shuffled returns place i of a block's order, by the "inside-out" form of Fisher and Yates's shuffle.
func (m *mix) shuffled(block, i uint64) uint64 {
	var order [largestBlock]uint8
	drawn := m.shuffle.Sub(block)
	for k := range m.block {
		j := drawn.Below(k, k+1)
		order[k] = order[j]
		order[j] = uint8(k)
	}
	return uint64(order[i])
}

// CheckWeights returns an error if weights are not positive numbers of at most four decimals, or are too far apart.
func CheckWeights(weights []float64) error {
	_, err := newMix(0, weights)
	return err
}

var errRange = errors.New("the weights are too far apart to be split exactly: their sum must be at most 1,048,576 " +
	"times their greatest common divisor")

// wholeWeights returns weights as whole numbers in the same proportion.
func wholeWeights(weights []float64) ([]uint32, error) {
	whole := make([]uint32, len(weights))
	for scale := 1.0; scale <= 10_000; scale *= 10 {
		if fits(whole, weights, scale) {
			return whole, nil
		}
	}
	for i, w := range weights {
		if !(w > 0) || math.Abs(w*10_000-math.Round(w*10_000)) > tolerance {
			return nil, fmt.Errorf("weight %d is %v: it must be a positive number of at most four decimals", i+1, w)
		}
	}
	return nil, errRange
}

// tolerance is how far a scaled weight may be from a whole number, because decimals are not exact in binary.
const tolerance = 1e-4

// fits sets the weights, multiplied by scale, and reports whether all are whole numbers.
func fits(whole []uint32, weights []float64, scale float64) bool {
	for i, w := range weights {
		scaled := math.Round(w * scale)
		if !(scaled > 0) || scaled > math.MaxUint32 || math.Abs(w*scale-scaled) > tolerance {
			return false
		}
		whole[i] = uint32(scaled)
	}
	return true
}
