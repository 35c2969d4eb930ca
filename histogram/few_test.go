package histogram

import "testing"

// The ranks are those of the binomial distribution: of 40 values the 38th is surely below p99, and none surely above;
// of 999 values, the 982nd and the 996th.
func TestFewValuesBeyondAPercentile(t *testing.T) {
	for _, c := range []struct {
		n          int64
		percentile string
		low, high  float64 // 0: there is none
	}{
		{1, "p50", 0, 0}, {10, "p50", 2, 9}, {10, "p99", 9, 0}, {40, "p99", 38, 0}, {999, "p99", 982, 996}, {1000, "p99", -1, -1},
		{20, "p50", -1, -1}, {100, "p90", -1, -1}, {99, "p90", 83, 96},
	} {
		h := New(Counts)
		for v := range c.n {
			h.Record(v + 1)
		}
		f := h.Summary(1).FewAt(c.percentile)
		if (f == nil) != (c.low < 0) {
			t.Errorf("%s of %d: %+v", c.percentile, c.n, f)
		} else if f != nil && (valueOf(f.Low) != c.low || valueOf(f.High) != c.high) {
			t.Errorf("%s of %d: %v to %v, want %v to %v", c.percentile, c.n, valueOf(f.Low), valueOf(f.High), c.low, c.high)
		}
	}
	if (*Summary)(nil).FewAt("p99") != nil {
		t.Error("no values have few")
	}
}

func valueOf(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}
