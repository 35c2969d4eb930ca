// Package draw provides the random numbers of a stage. Number i of a sequence is a function of the sequence's key and i
// alone.
//
// So each agent can compute any request's arrival and content without the requests before it, and two agents never
// share a generator or repeat each other's numbers. The package keeps no state and reads neither a clock nor entropy.
// It is not for secrets. Arrivals and workloads draw from it.
//
// The generator is SplitMix64 indexed by its counter: number i is a bijective mix of key + (i+1) x gamma. As a stream
// it passes BigCrush, it costs about a nanosecond, and it has no state to keep for a million requests. Keys are mixed
// too, so that the sequences of neighbouring seeds do not overlap: two sequences run into each other within n numbers
// with a chance of about n/2^63.
package draw

import "math/bits"

// gamma is the odd whole number nearest to 2^64 divided by the golden ratio.
const gamma = 0x9e3779b97f4a7c15

// Sequence is an infinite sequence of random 64-bit numbers with random access. The zero value is the sequence of key
// 0.
type Sequence struct {
	key uint64
}

// New returns the sequence of a seed for one purpose, named by one or several words. Sequences for different purposes
// are unrelated.
func New(seed uint64, purpose ...string) Sequence { return Sequence{key: Mix(seed ^ Hash(purpose...))} }

// At returns number i.
func (s Sequence) At(i uint64) uint64 { return Mix(s.key + (i+1)*gamma) }

// Below returns number i scaled to 0 to n-1. All results are equally likely, up to a relative error of n/2^64. n must
// not be 0.
func (s Sequence) Below(i, n uint64) uint64 {
	high, _ := bits.Mul64(s.At(i), n)
	return high
}

// Unit returns number i scaled to the open interval from 0 to 1. The result is an odd multiple of 2^-53. So it is never
// 0 or 1, 1-u and 2u-1 are exact, and the logarithm is finite at both ends.
func (s Sequence) Unit(i uint64) float64 { return (float64(s.At(i)>>12) + 0.5) * 0x1p-52 }

// Sub returns the sequence of item i, for items that need many numbers each.
func (s Sequence) Sub(i uint64) Sequence { return Sequence{key: s.At(i)} }

// Hash returns the 64-bit hash of parts: FNV-1a with a separator behind each part, mixed at the end. The same parts
// have the same hash in every version and on every machine.
func Hash(parts ...string) uint64 {
	const offset, prime = 0xcbf29ce484222325, 0x100000001b3
	h := uint64(offset)
	for _, part := range parts {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * prime
		}
		h = (h ^ 0xff) * prime // never a byte of UTF-8
	}
	return Mix(h)
}

// Mix is the finaliser of SplitMix64: a bijection in which flipping any bit of x flips about half of the result's bits.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

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
