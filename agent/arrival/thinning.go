package arrival

import (
	"fmt"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
)

// splitRandom and splitInTurn are the ways of splitting an open loop, as LoadPoint.split names them.
const (
	splitRandom = "random"
	splitInTurn = "in_turn"
)

// draws are the random numbers by which arrivals get their places.
//
// Dealt out in turn, every k-th arrival of a Poisson process is an Erlang process: with k equal agents the gaps of one
// have a coefficient of variation of 1/sqrt(k), where a Poisson process has 1. If each arrival instead goes to a place
// at random, with the place's weight as probability and independently of all others, each place's arrivals are a
// Poisson process of their own, and those of different places are independent (Kingman, "Poisson Processes", 1993, 5.1,
// the colouring theorem). Arrivals that a handover sends on are coloured again, which is the same for the places that
// it gives to.
//
// Number i of sequence n decides about arrival i: sequence 0 for the weights, sequence h+1 for handover h. So it
// depends on nothing but the seed, the arrival and the handovers before, and all places together own each arrival once.
type draws struct{ sequences draw.Sequence }

// drawsOf returns how a load is split, nil if its arrivals are dealt out in turn.
func drawsOf(load *spatev1.LoadPoint, seed uint64) (*draws, error) {
	switch split := load.GetSplit(); split {
	case "", splitInTurn:
		return nil, nil //nolint:nilnil // dealing out needs no draws
	case splitRandom:
		return &draws{draw.New(seed, "split")}, nil
	default:
		return nil, fmt.Errorf("arrival: a load cannot be split %q: use %s or %s", split, splitRandom, splitInTurn)
	}
}

// seat returns the seat of arrival i in a pattern's cycle: one drawn from a sequence, or that of item k if arrivals are
// dealt out.
func (d *draws) seat(sequence int, i, k, cycle uint64) uint64 {
	if d == nil {
		return k
	}
	return d.of(sequence).Below(i, cycle)
}

// count returns how many arrivals from an index to below another are drawn for a stripe by the weights: of a billion in
// some seconds.
func (d *draws) count(base *Stripe, from, below uint64) (n uint64) {
	if base.Empty() {
		return 0
	}
	own, seats := make([]uint8, base.cycle), d.of(0)
	for _, seat := range base.own {
		own[seat] = 1
	}
	for i := from; i < below; i++ {
		n += uint64(own[seats.Below(i, base.cycle)]) // without a branch that nothing could predict
	}
	return n
}

// of returns the sequence of the weights, or of a handover.
func (d *draws) of(sequence int) draw.Sequence { return d.sequences.Sub(uint64(sequence)) }
