package results

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// What a plan does not say about a target is null, and the first target is the baseline unless another one is marked.
func TestTargets(t *testing.T) {
	got := targetsOf([]*spatev1.Target{
		{Name: "a", Gpus: 8, Hardware: "8x H20", CostPerHour: 19.2, Labels: map[string]string{"image": "x"}},
		{Name: "b"},
	})
	gpus, hardware, cost := uint32(8), "8x H20", 19.2
	want := []RunTarget{
		{Name: "a", GPUs: &gpus, Hardware: &hardware, CostPerHour: &cost, Labels: map[string]string{"image": "x"},
			Baseline: true},
		{Name: "b", Labels: map[string]string{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	marked := targetsOf([]*spatev1.Target{{Name: "a"}, {Name: "b", Baseline: true}})
	if marked[0].Baseline || !marked[1].Baseline {
		t.Errorf("%+v", marked)
	}
}
