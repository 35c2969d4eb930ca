package schedule

import (
	"errors"
	"fmt"
	"slices"
)

// This file divides the whole numbers among ranks in proportion to their weights, evenly spread.
//
// A Stripe is the numbers of one rank, a Pattern the owner of each number. Both are exact, so every machine gets the
// same. What the numbers stand for, and how they change hands, is the shares' business.

// MaxCycle is the largest sum of a stripe's weights in lowest terms.
const MaxCycle = 1 << 20

// Stripe is one agent's share of the whole numbers. The length of a cycle is the sum of the weights, and of each cycle
// the agent owns as many numbers as its weight, spread evenly. A Stripe is a value and may be copied and read
// concurrently.
type Stripe struct {
	own   []uint32 // owned numbers of a cycle, ascending
	cycle uint64   // length of a cycle
}

// NewStripe returns the stripe of the agent at index rank of the weights. An agent of weight 0 owns nothing. It fails
// if no weight is positive, or if the weights, divided by their greatest common divisor, sum up to more than MaxCycle.
func NewStripe(weights []uint32, rank int) (Stripe, error) {
	if rank < 0 || rank >= len(weights) {
		return Stripe{}, fmt.Errorf("schedule: rank %d is not one of %d weights", rank, len(weights))
	}
	lowest, cycle, err := reduce(weights)
	if err != nil {
		return Stripe{}, err
	}
	own := make([]uint32, 0, lowest[rank])
	for seat, owner := range owners(lowest, cycle) {
		if owner == uint32(rank) {
			own = append(own, uint32(seat))
		}
	}
	return Stripe{own: own, cycle: cycle}, nil
}

// Below returns how many numbers below n the stripe owns.
func (s Stripe) Below(n uint64) uint64 {
	if s.Empty() {
		return 0
	}
	within, _ := slices.BinarySearch(s.own, uint32(n%s.cycle))
	return n/s.cycle*uint64(len(s.own)) + uint64(within)
}

// At returns owned number k, counted from 0. The stripe must not be empty.
func (s Stripe) At(k uint64) uint64 {
	n := uint64(len(s.own))
	return k/n*s.cycle + uint64(s.own[k%n])
}

// Has reports whether the stripe owns number i.
func (s Stripe) Has(i uint64) bool { return !s.Empty() && s.HasSeat(i%s.cycle) }

// HasSeat reports whether the stripe owns a number of the cycle.
func (s *Stripe) HasSeat(seat uint64) bool {
	_, found := slices.BinarySearch(s.own, uint32(seat))
	return found
}

// Own returns the owned numbers of the first cycle, ascending. The caller must not change them.
func (s *Stripe) Own() []uint32 { return s.own }

// Cycle returns the sum of the weights in lowest terms. 0 for the zero Stripe.
func (s *Stripe) Cycle() uint64 { return s.cycle }

// Empty reports whether the stripe owns no numbers.
func (s Stripe) Empty() bool { return len(s.own) == 0 }

// Complete reports whether the stripe owns all numbers.
func (s Stripe) Complete() bool { return !s.Empty() && uint64(len(s.own)) == s.cycle }

// reduce divides the weights by their greatest common divisor and returns the results and their sum.
func reduce(weights []uint32) (lowest []uint32, cycle uint64, err error) {
	var divisor uint32
	for _, w := range weights {
		divisor = gcd(divisor, w)
	}
	if divisor == 0 {
		return nil, 0, errors.New("schedule: no agent has a positive weight: at least one must be 1 or more")
	}
	lowest = make([]uint32, len(weights))
	for i, w := range weights {
		lowest[i] = w / divisor
		cycle += uint64(lowest[i])
	}
	if cycle > MaxCycle {
		return nil, 0, fmt.Errorf(
			"schedule: the weights sum up to %d in lowest terms, more than %d: round them with Quantise", cycle,
			MaxCycle)
	}
	return lowest, cycle, nil
}

// gcd returns the greatest common divisor. gcd(0, n) is n.
func gcd(a, b uint32) uint32 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
