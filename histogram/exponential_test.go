package histogram

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/measure"
)

// units draws a unit and returns its layout.
var units = rapid.SampledFrom([]measure.Unit{measure.Nanoseconds, measure.Tokens, measure.Thousandths})

func layoutOf(u measure.Unit) Layout {
	if u == measure.Nanoseconds {
		return Times
	}
	return Counts
}

// quantile returns the bounds of the bucket that holds the value of a rank.
func (e *Exponential) quantile(rank uint64) (low, high float64) {
	if rank <= e.Zero {
		return 0, 0
	}
	seen, base := e.Zero, math.Exp2(1.0/bucketsPerDoubling)
	for i, n := range e.Buckets {
		if seen += n; seen >= rank {
			high = math.Exp2(float64(int(e.First)+i+1) / bucketsPerDoubling)
			return high / base, high
		}
	}
	return math.Inf(1), math.Inf(1)
}

// The bucket of a rank holds what Percentile returns, so that a quantile within it differs by less than 0.28 %. Count,
// sum, smallest and largest value are exact.
func TestExponentialHoldsThePercentiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := units.Draw(t, "unit")
		h := of(layoutOf(unit), values(layoutOf(unit)).Draw(t, "values"))
		e := h.Exponential(unit)
		if h.Count() == 0 {
			if e != nil {
				t.Fatalf("no values, but %+v", e)
			}
			return
		}
		base, sum := unit.Base(), e.Zero
		for _, n := range e.Buckets {
			sum += n
		}
		if sum != h.Count() || e.Count != sum || e.Sum != h.Sum().Float64()/base ||
			e.Min != float64(h.Min())/base || e.Max != float64(h.Max())/base {
			t.Fatalf("%+v of %d values, sum %v, from %d to %d", e, h.Count(), h.Sum(), h.Min(), h.Max())
		}
		if n := len(e.Buckets); n > 0 && (e.Buckets[0] == 0 || e.Buckets[n-1] == 0) {
			t.Fatalf("empty buckets at an end: %+v", e)
		}
		const slack = 1e-12 // of the logarithms here
		for _, p := range []float64{0.1, 1, 50, 90, 99, 99.9, 100} {
			low, high := e.quantile(h.rank(p))
			value := float64(h.Percentile(p)) / base
			if value < low*(1-slack) || value > high*(1+slack) || high > low*1.0028 {
				t.Fatalf("percentile %v is %v, its bucket is (%v, %v]", p, value, low, high)
			}
		}
	})
}

// Powers of two are upper bounds of buckets: the conventions of Prometheus and OpenTelemetry.
func TestExponentialBounds(t *testing.T) {
	for value, want := range map[float64]int32{1: -1, 2: 255, 0.5: -257, 1.0001: 0, 0.9999: -1} {
		if got := bucketOf(value); got != want {
			t.Errorf("%v is in bucket %d, want %d", value, got, want)
		}
	}
	h := New(Counts)
	for v := range int64(3) {
		h.Record(v)
	}
	e := h.Exponential(measure.Tokens)
	if e.Zero != 1 || e.First != -1 || len(e.Buckets) != 257 || e.Buckets[0] != 1 || e.Buckets[256] != 1 {
		t.Errorf("0, 1, 2: %d zeros, %d buckets from %d", e.Zero, len(e.Buckets), e.First)
	}
}

func BenchmarkExponential(b *testing.B) {
	h := New(Times)
	for v := int64(10_000_000); v < 60_000_000; v += 5_000 {
		h.Record(v)
	}
	b.ReportAllocs()
	for b.Loop() {
		h.Exponential(measure.Nanoseconds)
	}
}
