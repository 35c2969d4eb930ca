package sink

import (
	"math"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
)

// buckets returns the counts of a native histogram by their upper bounds.
func buckets(h *dto.Histogram) map[float64]uint64 {
	all, at, count, delta := map[float64]uint64{}, int32(0), int64(0), 0
	for _, span := range h.GetPositiveSpan() {
		at += span.GetOffset()
		for range span.GetLength() {
			count += h.GetPositiveDelta()[delta]
			if count > 0 {
				all[math.Exp2(math.Ldexp(float64(at), -int(h.GetSchema())))] = uint64(count)
			}
			at, delta = at+1, delta+1
		}
	}
	return all
}

// A native histogram holds the values of the buckets that it was made of.
func TestNative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histogram.New(histogram.Times)
		for _, v := range rapid.SliceOfN(rapid.Int64Range(0, 5e9), 1, 50).Draw(t, "values") {
			h.Record(v)
		}
		e := h.Exponential(measure.Nanoseconds)
		n := native(e, time.Unix(5, 0))
		want := map[float64]uint64{}
		for i, count := range e.Buckets {
			if count > 0 {
				want[math.Exp2(math.Ldexp(float64(int(e.First)+i+1), -histogram.Schema))] = count
			}
		}
		got := buckets(n)
		for bound, count := range want {
			if got[bound] != count {
				t.Fatalf("up to %v: %d values, want %d", bound, got[bound], count)
			}
		}
		if len(got) != len(want) || n.GetSampleCount() != e.Count || n.GetSampleSum() != e.Sum ||
			n.GetZeroCount() != e.Zero || len(n.GetBucket()) != 0 || n.GetCreatedTimestamp().GetSeconds() != 5 {
			t.Fatalf("%v of %+v", n, e)
		}
	})
}
