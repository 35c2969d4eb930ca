package loadpoint

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestRangeValues(t *testing.T) {
	tests := map[string]struct {
		r    *spatev1.Range
		want []float64
	}{
		"step":                 {&spatev1.Range{From: 2, To: 8, Step: 2}, []float64{2, 4, 6, 8}},
		"step beyond the end":  {&spatev1.Range{From: 2, To: 9, Step: 3}, []float64{2, 5, 8, 9}},
		"step larger than all": {&spatev1.Range{From: 2, To: 3, Step: 5}, []float64{2, 3}},
		"step in decimals":     {&spatev1.Range{From: 0.1, To: 0.5, Step: 0.1}, []float64{0.1, 0.2, 0.3, 0.4, 0.5}},
		"factor": {&spatev1.Range{From: 1, To: 128, Factor: 2},
			[]float64{1, 2, 4, 8, 16, 32, 64, 128}},
		"factor beyond the end":    {&spatev1.Range{From: 1, To: 5, Factor: 2}, []float64{1, 2, 4, 5}},
		"factor near its end":      {&spatev1.Range{From: 0.1, To: 0.8, Factor: 2}, []float64{0.1, 0.2, 0.4, 0.8}},
		"points":                   {&spatev1.Range{From: 1, To: 16, Points: 5}, []float64{1, 2, 4, 8, 16}},
		"points in six digits":     {&spatev1.Range{From: 1, To: 10, Points: 4}, []float64{1, 2.15443, 4.64159, 10}},
		"two points":               {&spatev1.Range{From: 3, To: 7, Points: 2}, []float64{3, 7}},
		"one value":                {&spatev1.Range{From: 3, To: 3, Step: 1}, []float64{3}},
		"points too near together": {&spatev1.Range{From: 1, To: 1.00001, Points: 5}, []float64{1, 1.00001}},
		"no way":                   {&spatev1.Range{From: 1, To: 2}, nil},
		"wrong way round":          {&spatev1.Range{From: 2, To: 1, Step: 1}, nil},
		"not there":                {nil, nil},
	}
	for name, test := range tests {
		if diff := cmp.Diff(test.want, RangeValues(test.r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestRangeValuesAlways: the values of any range are bounded, rise, and start and end at the range's ends.
func TestRangeValuesAlways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Float64Range(1e-6, 1e7).Draw(t, "from")
		r := &spatev1.Range{From: from, To: rapid.Float64Range(from, 1e7).Draw(t, "to")}
		switch rapid.IntRange(0, 2).Draw(t, "way") {
		case 0:
			r.Step = rapid.Float64Range(0, 1e7).Draw(t, "step")
		case 1:
			r.Factor = rapid.Float64Range(0, 100).Draw(t, "factor")
		case 2:
			r.Points = rapid.Uint32Range(0, 1024).Draw(t, "points")
		}
		values := RangeValues(r)
		if len(values) == 0 {
			return
		}
		if len(values) > MaxValues+1 || values[0] != r.GetFrom() || values[len(values)-1] != r.GetTo() {
			t.Fatalf("%v: %d values, %v to %v", r, len(values), values[0], values[len(values)-1])
		}
		if !slices.IsSorted(values) || len(slices.Compact(slices.Clone(values))) != len(values) {
			t.Fatalf("%v: not rising: %v", r, values)
		}
		if n := int(r.GetPoints()); n > 1 && len(values) > n {
			t.Fatalf("%v: %d values", r, len(values))
		}
	})
}

// TestConcurrencyRangesAreWhole compares concurrencies with values rounded one by one.
func TestConcurrencyRangesAreWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &spatev1.Range{From: 1, To: float64(rapid.IntRange(1, 500).Draw(t, "to")),
			Points: rapid.Uint32Range(2, 50).Draw(t, "points")}
		var want []uint32
		for _, v := range RangeValues(r) {
			if n := uint32(math.Floor(v + 0.5)); !slices.Contains(want, n) {
				want = append(want, n)
			}
		}
		if diff := cmp.Diff(want, Concurrencies(&spatev1.Load{ConcurrencyRange: r})); diff != "" {
			t.Error(diff)
		}
	})
}
