package histogram

import (
	"encoding/binary"
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

// walkEach reads a payload number by number.
func walkEach(b *bounds, payload []byte) error {
	at, bins := 0, b.geometry.bins()
	for len(payload) > 0 {
		v, size := zigZag(payload)
		width := 1
		if v < 0 {
			width = int(-v)
		}
		if size == 0 || width < 0 || width > bins-at {
			return ErrInvalid
		}
		if v > 0 {
			if err := b.add(at, uint64(v)); err != nil {
				return err
			}
		}
		payload, at = payload[size:], at+width
	}
	return nil
}

// TestWalkTakesWhatEachNumberTakes: the loop for short numbers takes and refuses the same payloads, whatever they are.
func TestWalkTakesWhatEachNumberTakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.SampledFrom([]Layout{Times, Counts}).Draw(t, "layout")
		g := &geometries[l]
		low := rapid.Uint64Range(0, 1<<rapid.IntRange(0, 20).Draw(t, "low")).Draw(t, "smallest")
		high := rapid.Uint64Range(low, uint64(g.highest)).Draw(t, "largest")
		var payload []byte
		for range rapid.IntRange(0, 30).Draw(t, "parts") {
			payload = binary.AppendVarint(payload, -rapid.Int64Range(0, int64(g.bins()/8)).Draw(t, "empty"))
			payload = append(payload, rapid.SliceOfN(rapid.OneOf(rapid.Byte(), rapid.ByteRange(0, 10)), 0, 20).Draw(t, "bytes")...)
		}
		whole, each := newBounds(g, low, high), newBounds(g, low, high)
		err, want := whole.walk(payload), walkEach(&each, payload)
		if (err == nil) != (want == nil) {
			t.Fatalf("%x: %v, number by number %v", payload, err, want)
		}
		if err == nil && whole != each {
			t.Fatalf("%x: %+v, number by number %+v", payload, whole, each)
		}
	})
}
