package schedule

import (
	"fmt"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
)

// splitRandom and splitInTurn are the values of LoadPoint.split.
const (
	splitRandom = "random"
	splitInTurn = "in_turn"
)

// draws are the random numbers that assign arrivals to ranks.
//
// If a Poisson process is dealt in turn to k equal agents, each agent's arrivals are an Erlang process, whose gaps have
// a coefficient of variation of 1/sqrt(k) instead of 1. If instead each arrival goes to a random rank, independently
// and with a probability proportional to the rank's weight, each rank's arrivals are a Poisson process, and those of
// different ranks are independent (Kingman, "Poisson Processes", 1993, 5.1, the colouring theorem). Arrivals that a
// handover passes on are coloured again, so the same holds for the receiving ranks.
//
// Number i of a sequence decides about arrival i: sequence 0 by the weights, sequence h+1 for handover h. So the owner
// depends only on the seed, the arrival and the handovers, and all ranks together own each arrival exactly once.
type draws struct{ sequences draw.Sequence }

// drawsOf returns the draws of a load, nil if its arrivals are dealt in turn.
func drawsOf(load *spatev1.LoadPoint, seed uint64) (*draws, error) {
	switch split := load.GetSplit(); split {
	case "", splitInTurn:
		return nil, nil //nolint:nilnil // dealing in turn needs no draws
	case splitRandom:
		return &draws{draw.New(seed, "split")}, nil
	default:
		return nil, fmt.Errorf("schedule: unknown split %q: use %s or %s", split, splitRandom, splitInTurn)
	}
}

// seat returns a number that selects the seat of arrival i in a pattern: a seat drawn from a sequence, or k if arrivals
// are dealt in turn.
func (d *draws) seat(sequence int, i, k, cycle uint64) uint64 {
	if d == nil {
		return k
	}
	return d.of(sequence).Below(i, cycle)
}

// count returns how many arrivals with indices in [from, below) are drawn for a stripe by the weights. A billion take a
// few seconds.
func (d *draws) count(base *Stripe, from, below uint64) (n uint64) {
	if base.Empty() {
		return 0
	}
	own, seats := make([]uint8, base.Cycle()), d.of(0)
	for _, seat := range base.Own() {
		own[seat] = 1
	}
	for i := from; i < below; i++ {
		n += uint64(own[seats.Below(i, base.Cycle())]) // avoids an unpredictable branch
	}
	return n
}

// of returns the sequence of the weights (0) or of handover h (h+1).
func (d *draws) of(sequence int) draw.Sequence { return d.sequences.Sub(uint64(sequence)) }
