package histogram

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// After values are subtracted, the histogram equals one of the remaining values, except for Min and Max within a bin.
func TestSubtractUndoesMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.Int64Range(0, 1e9))
		kept, gone := values.Draw(t, "kept"), values.Draw(t, "gone")
		want, all, part := New(Times), New(Times), New(Times)
		for _, v := range kept {
			want.Record(v)
			all.Record(v)
		}
		for _, v := range gone {
			all.Record(v)
			part.Record(v)
		}
		if err := all.Subtract(part); err != nil {
			t.Fatal(err)
		}
		if all.Count() != want.Count() || all.Sum() != want.Sum() || all.totals.squares != want.totals.squares {
			t.Fatalf("%d values, sum %v, want %d, %v", all.Count(), all.Sum(), want.Count(), want.Sum())
		}
		for _, p := range []float64{0, 1, 50, 99, 100} {
			if got, want := all.Percentile(p), want.Percentile(p); math.Abs(float64(got-want)) > 512+
				0.001*float64(want) {
				t.Fatalf("p%v is %d, want %d", p, got, want)
			}
		}
		if len(kept) == 0 && len(gone) > 0 && all.Subtract(part) == nil {
			t.Fatal("values were taken away twice")
		}
	})
}

func TestSubtractOfAnotherLayout(t *testing.T) {
	if New(Times).Subtract(New(Counts)) == nil {
		t.Error("counts were taken away from times")
	}
}

// The quantile is numpy's: numpy.percentile([1, 2, 4, 8], [0, 25, 50, 90, 100]) gives 1, 1.75, 3, 6.8, 8.
func TestQuantileIsNumpys(t *testing.T) {
	h := New(Counts)
	for _, v := range []int64{8, 1, 4, 2} {
		h.Record(v)
	}
	for q, want := range map[float64]float64{0: 1, 0.25: 1.75, 0.5: 3, 0.9: 6.8, 1: 8, -1: 1, 2: 8} {
		if got := h.Quantile(q); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if !math.IsNaN(New(Counts).Quantile(0.5)) {
		t.Error("no values have a quantile")
	}
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(1, 2000), 1, 50).Draw(t, "values") // each value has its own bin
		h := New(Counts)
		for _, v := range values {
			h.Record(v)
		}
		slices.Sort(values)
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		at := q * float64(len(values)-1)
		low, high := values[int(math.Floor(at))], values[int(math.Ceil(at))]
		want := float64(low) + float64(high-low)*(at-math.Floor(at))
		if got := h.Quantile(q); math.Abs(got-want) > 1e-6 {
			t.Fatalf("quantile %v of %v is %v, want %v", q, values, got, want)
		}
	})
}
