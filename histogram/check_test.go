package histogram

import (
	"testing"

	"pgregory.net/rapid"
)

// slowBounds computes bounds by definition, bin by bin.
type slowBounds struct {
	sumLow, sumHigh, squareLow, squareHi Uint128
}

func (s *slowBounds) add(b *bounds, index int, n uint64) {
	low, high := b.within(index)
	s.sumLow, s.sumHigh = s.sumLow.Add(product(low, n)), s.sumHigh.Add(product(high, n))
	s.squareLow, s.squareHi = s.squareLow.Add(product(low, low).scale(n)), s.squareHi.Add(product(high, high).scale(n))
}

// TestBoundsAreThoseBinByBin: sums by page give the same bounds as sums by bin, for any bins and counts, and so does a
// payload, whose short numbers are read by other code.
func TestBoundsAreThoseBinByBin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.SampledFrom([]Layout{Times, Counts}).Draw(t, "layout")
		g := &geometries[l]
		h := New(l)
		for _, v := range rapid.SliceOfN(rapid.Int64Range(0, g.highest), 1, 80).Draw(t, "values") {
			h.RecordN(v>>(v%40), rapid.OneOf(rapid.Uint64Range(1, 63), rapid.Uint64Range(1, maxCount/256)).Draw(t, "n"))
		}
		b, walked := newBounds(g, h.totals.min, h.totals.max), newBounds(g, h.totals.min, h.totals.max)
		if err := walked.walk(h.appendCounts(nil)); err != nil {
			t.Fatal(err)
		}
		var want slowBounds
		for index, n := range h.bins {
			if err := b.add(index, n); err != nil {
				t.Fatal(err)
			}
			want.add(&b, index, n)
		}
		if walked != b {
			t.Fatalf("walked: %+v, bin by bin: %+v", walked, b)
		}
		b.fold(0)
		b.clamp()
		if got := (slowBounds{b.sumLow, b.sumHigh, b.squareLow, b.squareHi}); got != want || b.count != h.Count() {
			t.Fatalf("bounds %v of %d values, want %v of %d", got, b.count, want, h.Count())
		}
	})
}
