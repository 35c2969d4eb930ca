package histogram

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// values draws values of all magnitudes, within the layout's range and beyond its ends.
func values(l Layout) *rapid.Generator[[]int64] {
	top := geometries[l].highest
	return rapid.SliceOfN(rapid.OneOf(
		rapid.Int64Range(0, 5000),
		rapid.Int64Range(0, top),
		rapid.Int64Range(20_000_000, 21_000_000),
		rapid.SampledFrom([]int64{0, 1, 511, 512, 1023, 1024, 2047, 2048, 2049, top - 1, top, top + 1,
			math.MaxInt64, -1}),
	), 0, 200)
}

// layouts draws a layout.
var layouts = rapid.SampledFrom([]Layout{Times, Counts})

// of returns a histogram of values.
func of(l Layout, values []int64) *Histogram {
	h := New(l)
	for _, v := range values {
		h.Record(v)
	}
	return h
}

// oracle is the sorted slice of a histogram's values.
type oracle []int64

// sorted returns the oracle of values.
func sorted(l Layout, values []int64) oracle {
	o := make(oracle, len(values))
	for i, v := range values {
		o[i] = int64(geometries[l].clamp(v))
	}
	slices.Sort(o)
	return o
}

// inFull returns u as a number.
func inFull(u Uint128) *big.Int {
	n := new(big.Int).SetUint64(u.High)
	return n.Or(n.Lsh(n, 64), new(big.Int).SetUint64(u.Low))
}

// sums returns the exact sums of the values and of their squares.
func (o oracle) sums() (sum, squares *big.Int) {
	sum, squares = new(big.Int), new(big.Int)
	for _, v := range o {
		b := big.NewInt(v)
		sum.Add(sum, b)
		squares.Add(squares, new(big.Int).Mul(b, b))
	}
	return sum, squares
}

// std returns the population standard deviation, computed with 512 bits.
func (o oracle) std() float64 {
	sum, squares := o.sums()
	n := big.NewInt(int64(len(o)))
	spread := new(big.Int).Sub(new(big.Int).Mul(n, squares), new(big.Int).Mul(sum, sum))
	root := new(big.Float).SetPrec(512).SetInt(spread)
	root.Sqrt(root).Quo(root, new(big.Float).SetInt(n))
	f, _ := root.Float64()
	return f
}

// TestAgainstSortedSlice compares all statistics of a histogram with the values themselves.
func TestAgainstSortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := layouts.Draw(t, "layout")
		vs := values(l).Draw(t, "values")
		h, o := of(l, vs), sorted(l, vs)
		if h.Count() != uint64(len(o)) {
			t.Fatalf("count %d, want %d", h.Count(), len(o))
		}
		sum, squares := o.sums()
		if gotSum, got := inFull(h.Sum()), inFull(h.totals.squares); gotSum.Cmp(sum) != 0 || got.Cmp(squares) != 0 {
			t.Fatalf("sums %v and %v, want %v and %v", gotSum, got, sum, squares)
		}
		if len(o) == 0 {
			checkNoValues(t, h)
			return
		}
		if h.Min() != o[0] || h.Max() != o[len(o)-1] {
			t.Fatalf("%d to %d, want %d to %d", h.Min(), h.Max(), o[0], o[len(o)-1])
		}
		if want := o.std(); math.Abs(h.Std()-want) > 1e-14*want {
			t.Fatalf("std %v, want %v", h.Std(), want)
		}
		checkPercentiles(t, h, o)
	})
}

// checkNoValues checks the statistics of an empty histogram.
func checkNoValues(t *rapid.T, h *Histogram) {
	if h.Min() != 0 || h.Max() != 0 || h.Percentile(50) != 0 || !math.IsNaN(h.Mean()) || !math.IsNaN(h.Std()) {
		t.Fatalf("an empty histogram speaks of values: %d %d %d %v %v", h.Min(), h.Max(), h.Percentile(50),
			h.Mean(), h.Std())
	}
}

// checkPercentiles compares the percentile at each rank with the value of that rank: never below it, and above it by
// less than a bin's width, which is a thousandth of the value or the finest bin.
func checkPercentiles(t *rapid.T, h *Histogram, o oracle) {
	if h.Percentile(0) != o[0] || h.Percentile(-1) != o[0] || h.Percentile(100) != o[len(o)-1] ||
		h.Percentile(101) != o[len(o)-1] {
		t.Fatalf("ends %d, %d, want %d, %d", h.Percentile(0), h.Percentile(100), o[0], o[len(o)-1])
	}
	for i, v := range o {
		got := h.Percentile(100 * float64(i+1) / float64(len(o)))
		width := max(v/1000, 1<<h.geometry.unit)
		if got < v || got >= v+width && got != v || got > h.Max() {
			t.Fatalf("rank %d of %d is %d, want %d", i+1, len(o), got, v)
		}
	}
}

// TestPercentileRank checks the rank against HdrHistogram's rule where floats are inexact.
func TestPercentileRank(t *testing.T) {
	for _, c := range []struct {
		p    float64
		n    int64
		want int64
	}{
		{50, 1, 1}, {50, 2, 1}, {50, 3, 2}, {99, 100, 99}, {99.9, 1000, 999}, {99.9, 10000, 9990}, {99.99, 10000, 9999},
		{99, 101, 100}, {90, 10, 9}, {95, 20, 19}, {0.001, 10, 1}, {100, 7, 7}, {math.NaN(), 3, 1},
	} {
		h := New(Counts)
		for v := range c.n {
			h.Record(min(v+1, 2047))
		}
		if c.n <= 2047 {
			if got := h.Percentile(c.p); got != c.want {
				t.Errorf("percentile %v of 1 to %d is %d, want %d", c.p, c.n, got, c.want)
			}
		}
		if got := h.rank(c.p); !math.IsNaN(c.p) && got != uint64(c.want) {
			t.Errorf("rank of %v in %d is %d, want %d", c.p, c.n, got, c.want)
		}
	}
}

// TestStdDoesNotCancel uses values so close together that float sums would lose their deviation entirely.
func TestStdDoesNotCancel(t *testing.T) {
	h := New(Times)
	h.RecordN(3_599_999_999_999, 1<<42)
	h.RecordN(3_599_999_999_997, 1<<42)
	if got := h.Std(); got != 1 {
		t.Fatalf("std of two values 2 apart is %v, want 1", got)
	}
	if got := h.Mean(); got != 3_599_999_999_998 {
		t.Fatalf("mean is %v, want 3599999999998", got)
	}
}

// TestMergeIsOneHistogram checks that shares, merged in any order, directly or as messages, equal the whole to the bit.
func TestMergeIsOneHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := layouts.Draw(t, "layout")
		m := metricOf(l)
		shares := rapid.SliceOfN(values(l), 1, 6).Draw(t, "shares")
		whole := of(l, slices.Concat(shares...))
		order := rapid.Permutation(shares).Draw(t, "order")
		merged, added := New(l), New(l)
		for _, share := range order {
			if err := merged.Merge(of(l, share)); err != nil {
				t.Fatal(err)
			}
			if err := added.AddProto(of(l, share).Proto(m)); err != nil {
				t.Fatal(err)
			}
		}
		checkSame(t, "merged", merged, whole)
		checkSame(t, "added", added, whole)
	})
}

// metricOf returns a metric of a layout.
func metricOf(l Layout) spatev1.Metric {
	if l == Counts {
		return spatev1.Metric_METRIC_OSL
	}
	return spatev1.Metric_METRIC_TTFT
}

// checkSame checks that two histograms are equal.
func checkSame(t rapid.TB, what string, got, want *Histogram) {
	t.Helper()
	if got.totals != want.totals {
		t.Fatalf("%s: totals %+v, want %+v", what, got.totals, want.totals)
	}
	if g, w := got.AppendHDR(nil), want.AppendHDR(nil); !slices.Equal(g, w) {
		t.Fatalf("%s: encodes as %x, want %x", what, g, w)
	}
}

// TestResetForgets checks that a reset histogram is like a new one.
func TestResetForgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := values(Times).Draw(t, "before"), values(Times).Draw(t, "after")
		h := of(Times, before)
		h.Reset()
		for _, v := range after {
			h.RecordN(v, 3)
		}
		want := New(Times)
		for range 3 {
			if err := want.Merge(of(Times, after)); err != nil {
				t.Fatal(err)
			}
		}
		checkSame(t, "after reset", h, want)
	})
}

func TestMergeRefuses(t *testing.T) {
	h := of(Times, []int64{5000})
	before := h.totals
	if err := h.Merge(of(Counts, []int64{5})); err == nil {
		t.Error("merged counts into times")
	}
	full := New(Times)
	full.RecordN(7000, maxCount)
	if err := h.Merge(full); !errors.Is(err, ErrFull) {
		t.Errorf("merged 2^44 values into one: %v", err)
	}
	if err := h.AddProto(full.Proto(spatev1.Metric_METRIC_E2E)); !errors.Is(err, ErrFull) {
		t.Errorf("added 2^44 values to one: %v", err)
	}
	if h.totals != before {
		t.Errorf("a refused merge left %+v, want %+v", h.totals, before)
	}
	if got := of(Times, []int64{5000}).AppendHDR(nil); !slices.Equal(h.AppendHDR(nil), got) {
		t.Error("a refused merge left bins behind")
	}
}

// TestMergeWithItself: all counts double.
func TestMergeWithItself(t *testing.T) {
	h := of(Times, []int64{5000, 70_000_000})
	if err := h.Merge(h); err != nil {
		t.Fatal(err)
	}
	checkSame(t, "doubled", h, of(Times, []int64{5000, 70_000_000, 5000, 70_000_000}))
}

func TestLayoutOfEveryMetric(t *testing.T) {
	counts := map[spatev1.Metric]bool{
		spatev1.Metric_METRIC_ISL: true, spatev1.Metric_METRIC_OSL: true,
		spatev1.Metric_METRIC_MILLITOKENS_PER_FRAME: true,
		spatev1.Metric_METRIC_REASONING_TOKENS:      true,
	}
	for number := range spatev1.Metric_name {
		m := spatev1.Metric(number)
		if got := LayoutOf(m); (got == Counts) != counts[m] {
			t.Errorf("%v is laid out as %v", m, got)
		}
	}
}

// TestBinsAreGapless checks that the bins follow each other without gap or overlap, and that each value falls into the
// right bin.
func TestBinsAreGapless(t *testing.T) {
	for l, g := range geometries {
		next := uint64(0)
		for i := range g.bins() {
			low, high := g.span(i)
			if low != next || g.index(low) != i || g.index(high) != i {
				t.Fatalf("%v: bin %d from %d to %d, expected from %d", Layout(l), i, low, high, next)
			}
			next = high + 1
		}
		if uint64(g.highest) >= next {
			t.Fatalf("%v: bins end at %d, before %d", Layout(l), next, g.highest)
		}
	}
}
