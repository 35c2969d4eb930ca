package draw

import (
	"math"
	"math/bits"
	"testing"

	"pgregory.net/rapid"
)

// TestKnownNumbers pins the sequence: the first numbers of SplitMix64 from state 0, as its authors' program prints
// them. Later versions must be able to repeat a run.
func TestKnownNumbers(t *testing.T) {
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f, 0xf88bb8a8724c81ec} {
		if got := (Sequence{}).At(uint64(i)); got != want {
			t.Errorf("number %d is %#x, want %#x", i, got, want)
		}
	}
}

// TestPurposesAndSeedsDiffer searches for numbers shared by the sequences of neighbouring seeds and of several
// purposes.
func TestPurposesAndSeedsDiffer(t *testing.T) {
	seen := make(map[uint64]bool)
	const seeds, numbers = 50, 200
	for _, purpose := range []string{"", "arrivals", "content"} {
		for seed := range uint64(seeds) {
			for i := range uint64(numbers) {
				seen[New(seed, purpose).At(i)] = true
			}
		}
	}
	if len(seen) != 3*seeds*numbers {
		t.Fatalf("%d different numbers, want %d", len(seen), 3*seeds*numbers)
	}
}

func TestBelowStaysBelow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Min(1).Draw(t, "n")
		s := New(rapid.Uint64().Draw(t, "seed"), "test")
		if got := s.Below(rapid.Uint64().Draw(t, "i"), n); got >= n {
			t.Fatalf("%d is not below %d", got, n)
		}
	})
}

// TestUnit: numbers lie strictly between 0 and 1, and 1,000 equal parts of this range are equally frequent (chi-square
// within four standard deviations of its mean; the seed is fixed).
func TestUnit(t *testing.T) {
	s, parts := New(11, "test"), make([]int, 1000)
	const n = 1_000_000
	for i := range uint64(n) {
		u := s.Unit(i)
		if u <= 0 || u >= 1 || 1-(1-u) != u {
			t.Fatalf("number %d is %v", i, u)
		}
		parts[int(u*1000)]++
	}
	if far := chiSquare(parts); math.Abs(far) > 4 {
		t.Errorf("%.1f standard deviations from uniform", far)
	}
}

// chiSquare returns how far counts are from uniform, in standard deviations of the statistic: (x - f) / sqrt(2f) with f
// degrees of freedom.
func chiSquare(counts []int) float64 {
	total := 0
	for _, c := range counts {
		total += c
	}
	want, x := float64(total)/float64(len(counts)), 0.0
	for _, c := range counts {
		x += (float64(c) - want) * (float64(c) - want) / want
	}
	freedom := float64(len(counts) - 1)
	return (x - freedom) / math.Sqrt(2*freedom)
}

// TestNeighboursDifferInHalfTheirBits flips one bit of the place, the seed or the sub-sequence.
func TestNeighboursDifferInHalfTheirBits(t *testing.T) {
	for name, at := range map[string]func(x uint64) uint64{
		"place": func(x uint64) uint64 { return New(7, "test").At(x) },
		"seed":  func(x uint64) uint64 { return New(x, "test").At(7) },
		"sub":   func(x uint64) uint64 { return New(7, "test").Sub(x).At(0) },
	} {
		turned, pairs := 0, 0
		for x := range uint64(200) {
			for bit := range 64 {
				turned += bits.OnesCount64(at(x) ^ at(x^1<<bit))
				pairs++
			}
		}
		if mean := float64(turned) / float64(pairs); mean < 31.8 || mean > 32.2 {
			t.Errorf("%s: %.2f bits turn, want 32", name, mean)
		}
	}
}

func TestHashKeepsPartsApart(t *testing.T) {
	seen := make(map[uint64][]string)
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"a"}, {"a", ""}, {"", "a"}, {"ab"}, {"a", "b"}, {"b", "a"}} {
		h := Hash(parts...)
		if before, ok := seen[h]; ok {
			t.Errorf("%q and %q have the same hash", before, parts)
		}
		seen[h] = parts
	}
}
