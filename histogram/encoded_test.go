package histogram

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// TestEncodedAddsAsMergeDoes: adding an encoded message gives the same histogram as decoding and merging it, however
// far its bins are apart and whatever values were there before.
func TestEncodedAddsAsMergeDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom([]spatev1.Metric{spatev1.Metric_METRIC_TTFT, spatev1.Metric_METRIC_OSL}).Draw(t,
			"metric")
		into, oracle := New(LayoutOf(m)), New(LayoutOf(m))
		for range rapid.IntRange(1, 4).Draw(t, "messages") {
			from := New(LayoutOf(m))
			for _, v := range rapid.SliceOfN(rapid.Int64Range(0, 1<<42), 0, 60).Draw(t, "values") {
				from.RecordN(v, 1+uint64(v)%200)
			}
			e, err := Check(from.Proto(m))
			if err != nil {
				t.Fatal(err)
			}
			if e.Count() != from.Count() || e.Layout() != from.layout {
				t.Fatalf("%d values of %v, want %d of %v", e.Count(), e.Layout(), from.Count(), from.layout)
			}
			if err := into.Add(e); err != nil {
				t.Fatal(err)
			}
			if err := oracle.Merge(from); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := string(into.AppendHDR(nil)), string(oracle.AppendHDR(nil)); got != want ||
			into.totals != oracle.totals {
			t.Fatalf("%v with %x, want %v with %x", into.totals, got, oracle.totals, want)
		}
	})
}

// TestEncodedRefusesAnotherLayout: the bins of times are not those of counts.
func TestEncodedRefusesAnotherLayout(t *testing.T) {
	e, err := Check(of(Times, []int64{5e6}).Proto(spatev1.Metric_METRIC_TTFT))
	if err != nil {
		t.Fatal(err)
	}
	h := of(Counts, []int64{7})
	if err := h.Add(e); err == nil || h.Count() != 1 {
		t.Errorf("error %v, %d values", err, h.Count())
	}
	if err := h.Add(Encoded{}); err != nil || h.Count() != 1 || h.Min() != 7 {
		t.Errorf("no values: error %v, %d values, smallest %d", err, h.Count(), h.Min())
	}
}

// TestPercentilesAreThoseOneByOne compares Percentiles with one call of Percentile each.
func TestPercentilesAreThoseOneByOne(t *testing.T) {
	ps := []float64{-1, 0, 0.1, 50, 50, 90, 95, 99, 99.9, 100, 101}
	random := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 2, 10, 1000, 5000} {
		vs := make([]int64, n)
		for i := range vs {
			vs[i] = int64(1e6 * random.ExpFloat64())
		}
		h, got := of(Times, vs), make([]int64, len(ps))
		h.Percentiles(ps, got)
		for i, p := range ps {
			if want := h.Percentile(p); got[i] != want {
				t.Errorf("of %d values percentile %v is %d, want %d", n, p, got[i], want)
			}
		}
	}
}
