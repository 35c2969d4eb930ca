package histogram

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// The ends of an interval are the values of the right ranks in a sorted slice, to within a bin.
func TestIntervalIsThatOfTheSortedValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(1_000, 1e10), 20, 400).Draw(t, "values")
		p := rapid.Float64Range(1, 99).Draw(t, "p")
		h := New(LayoutOf(spatev1.Metric_METRIC_TTFT))
		for _, v := range values {
			h.Record(v)
		}
		slices.Sort(values)
		n := float64(len(values))
		reach := 1.959963984540054 * math.Sqrt(n*p/100*(1-p/100))
		first, last := int(math.Floor(n*p/100-reach)), int(math.Ceil(n*p/100+reach))+1
		low, high, ok := h.Interval(p, 0.95)
		if want := n*min(p, 100-p)/100 >= 10-1e-9 && first >= 1 && last <= len(values); ok != want {
			t.Fatalf("known %v, want %v", ok, want)
		}
		if !ok {
			return
		}
		if l, h := values[first-1], values[last-1]; low > l || float64(low) < float64(l)*0.998-1024 ||
			high < h || float64(high) > float64(h)*1.002+1024 {
			t.Fatalf("%d to %d, want about %d to %d", low, high, l, h)
		}
		if v := h.Percentile(p); v < low || v > high {
			t.Fatalf("percentile %d is outside of %d to %d", v, low, high)
		}
	})
}

// The true percentile lies in the interval about as often as the confidence says.
func TestIntervalCoversThePercentile(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const rounds, n, mean = 400, 2000, 1e8
	for p, share := range map[float64]float64{50: 0.5, 99: 0.99} {
		truth, covered := int64(-mean*math.Log1p(-share)), 0
		for range rounds {
			h := New(LayoutOf(spatev1.Metric_METRIC_TTFT))
			for range n {
				h.Record(int64(random.ExpFloat64() * mean))
			}
			if low, high, ok := h.Interval(p, 0.9); !ok {
				t.Fatalf("p%v of %d values is not known", p, n)
			} else if low <= truth && truth <= high {
				covered++
			}
		}
		// Binomial with n = 400 and p = 0.9: standard deviation 6. Bins and whole ranks make the interval a little
		// wider.
		if covered < 342 || covered > 390 {
			t.Errorf("p%v: the truth lay in %d of %d intervals of confidence 0.9", p, covered, rounds)
		}
	}
}

func TestIntervalNeedsEnoughValues(t *testing.T) {
	h := New(LayoutOf(spatev1.Metric_METRIC_TTFT))
	if _, _, ok := h.Interval(50, 0.95); ok {
		t.Error("known of no values")
	}
	h.RecordN(5_000_000, 999)
	if _, _, ok := h.Interval(99, 0.95); ok {
		t.Error("p99 is known of 999 values")
	}
	h.Record(5_000_000)
	if low, high, ok := h.Interval(99, 0.95); !ok || low != 5_000_000 || high != 5_000_000 {
		t.Errorf("p99 of 1000 equal values: %d to %d, known %v", low, high, ok)
	}
	for _, bad := range [][2]float64{{0, 0.9}, {100, 0.9}, {50, 0}, {50, 1}, {math.NaN(), 0.9}} {
		if _, _, ok := h.Interval(bad[0], bad[1]); ok {
			t.Errorf("percentile %v with confidence %v is known", bad[0], bad[1])
		}
	}
	if n := LeastForInterval(99); n != 1000 {
		t.Errorf("p99 needs %d values", n)
	}
}
