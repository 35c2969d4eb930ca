package merge

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Hidden windows have no views. Hiding them affects neither the sums nor Arrivals.
func TestHiddenWindows(t *testing.T) {
	shown, hidden := NewStage(fixture.StageRecord(0, 3)), NewStage(fixture.StageRecord(0, 3))
	if err := hidden.Add(fixture.BusySnapshot(0, 1)); err != nil {
		t.Fatal(err)
	}
	hidden.HideWindows()
	for a := range 3 {
		for n := range uint64(2) {
			s := fixture.BusySnapshot(a, n+1)
			if err := shown.Add(s); err != nil {
				t.Fatal(err)
			}
			if a == 0 && n == 0 {
				continue // hidden already has this snapshot
			}
			if err := hidden.Add(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(shown.ToDate(), hidden.ToDate(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	withoutBuckets := cmpopts.IgnoreFields(MetricSummary{}, "Buckets")
	if diff := cmp.Diff(shown.ToDate().Total, hidden.Total(), protocmp.Transform(), withoutBuckets); diff != "" {
		t.Error(diff)
	}
	view, ok := shown.Window(2)
	if a := hidden.Arrivals(2); !ok || *a.Tokens != 6000 ||
		uint64(*a.Tokens) != view.Total.Counters.GetTokensArrived() {
		t.Errorf("%v tokens a second, shown %v", *a.Tokens, view.Total.Counters)
	}
	for number := range uint32(4) {
		if _, ok := hidden.Window(number); ok {
			t.Errorf("window %d is shown", number)
		}
	}
}

// TestReset: a tally that was reset has nothing of what was added before.
func TestReset(t *testing.T) {
	used := newTally(0)
	used.add(&spatev1.Series{
		Counters: &spatev1.Counters{Completed: 3},
		Errors:   []*spatev1.ErrorCount{{Class: spatev1.ErrorClass_ERROR_CLASS_TIMEOUT, Count: 1}},
		Models:   []*spatev1.ModelCount{{Model: "m", Requests: 3}},
	}, nil, place{})
	used.reset()
	if fresh := newTally(0); !reflect.DeepEqual(used, fresh) {
		t.Errorf("%+v, want %+v", used, fresh)
	}
}
