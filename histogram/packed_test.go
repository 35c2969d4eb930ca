package histogram

import (
	"testing"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// TestPackedIsAHistogram: whatever is added, and however often it is unpacked in between, it unpacks to the same
// histogram as one that was merged.
func TestPackedIsAHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom([]spatev1.Metric{spatev1.Metric_METRIC_TTFT, spatev1.Metric_METRIC_OSL}).Draw(t,
			"metric")
		var p Packed
		oracle, by, got := New(LayoutOf(m)), New(LayoutOf(m)), New(LayoutOf(m))
		for range rapid.IntRange(0, 3*mostWaiting).Draw(t, "messages") {
			from := New(LayoutOf(m))
			for _, v := range rapid.SliceOfN(rapid.Int64Range(0, 1<<30), 0, 20).Draw(t, "values") {
				from.Record(v)
			}
			e, err := Check(from.Proto(m))
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Add(e, by); err != nil {
				t.Fatal(err)
			}
			if err := oracle.Add(e); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "look") {
				p.Unpack(got)
			}
		}
		p.Unpack(got)
		if a, b := string(got.AppendHDR(nil)), string(oracle.AppendHDR(nil)); a != b || got.totals != oracle.totals ||
			p.totals.count != oracle.Count() {
			t.Fatalf("%v with %x, want %v with %x", got.totals, a, oracle.totals, b)
		}
	})
}

// TestPackedRefusesAnotherLayout: the bins of times are not those of counts.
func TestPackedRefusesAnotherLayout(t *testing.T) {
	times, err := Check(of(Times, []int64{5e6}).Proto(spatev1.Metric_METRIC_TTFT))
	if err != nil {
		t.Fatal(err)
	}
	counts, err := Check(of(Counts, []int64{7}).Proto(spatev1.Metric_METRIC_OSL))
	if err != nil {
		t.Fatal(err)
	}
	var p Packed
	if err := p.Add(times, New(Times)); err != nil {
		t.Fatal(err)
	}
	if err := p.Add(counts, New(Counts)); err == nil || p.totals.count != 1 {
		t.Errorf("error %v, %d values", err, p.totals.count)
	}
}
