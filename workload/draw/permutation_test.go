package draw

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestPermutation: each number occurs once, and other keys give another order.
func TestPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, 3000).Draw(t, "n")
		keys := New(rapid.Uint64().Draw(t, "seed"), "order")
		p := NewPermutation(keys, n)
		seen := make([]bool, n)
		for i := range n {
			at := p.At(i)
			if at >= n || seen[at] {
				t.Fatalf("number %d is %d, again or too large", i, at)
			}
			seen[at] = true
		}
	})
}

// TestPermutationUniform: all 120 orders of five things are about equally frequent.
func TestPermutationUniform(t *testing.T) {
	counts, places := make([]int, 120), map[string]int{}
	for key := range uint64(120_000) {
		p := NewPermutation(New(7, "order").Sub(key), 5)
		order := fmt.Sprint(p.At(0), p.At(1), p.At(2), p.At(3), p.At(4))
		if _, known := places[order]; !known {
			places[order] = len(places)
		}
		counts[places[order]]++
	}
	if far := chiSquare(counts); far > 4 || far < -4 {
		t.Errorf("orders are %.1f standard deviations from uniform", far)
	}
}
