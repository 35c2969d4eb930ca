package draw

import "math/bits"

// rounds is the number of rounds of the Feistel network. Four rounds of random-looking functions make a random-looking
// permutation (Luby and Rackoff). The others are for small domains, where halves of a few bits mix slowly.
const rounds = 8

// Permutation is a permutation of the numbers 0 to n-1. At(i) is the i-th. It takes no memory: a Feistel network
// permutes the numbers below the next power of 4, and a result that is not below n goes through the network again until
// it is (Black and Rogaway's cycle walking), fewer than four times on average. Halves have at least 4 bits, because
// smaller ones mix too little. For a handful of numbers, the walk is therefore over 256.
type Permutation struct {
	n    uint64
	half uint // bits of each half
	mask uint64
	keys [rounds]Sequence
}

// NewPermutation returns the permutation whose round keys are drawn from a sequence.
func NewPermutation(keys Sequence, n uint64) Permutation {
	p := Permutation{n: n, half: uint(max(4, (bits.Len64(n-1)+1)/2))}
	p.mask = 1<<p.half - 1
	for r := range uint64(rounds) {
		p.keys[r] = keys.Sub(r)
	}
	return p
}

// At returns the i-th number. i must be below n.
func (p *Permutation) At(i uint64) uint64 {
	for {
		left, right := i>>p.half, i&p.mask
		for _, key := range p.keys {
			left, right = right, left^key.At(right)&p.mask
		}
		if i = left<<p.half | right; i < p.n {
			return i
		}
	}
}
