package measure_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Sums are exact, keep a bounded number of names, and change nothing that was added.
func TestModelsAddUp(t *testing.T) {
	one := []*spatev1.ModelCount{{Model: "a", Requests: 2, E2EUs: 10, Streamed: 1, TtftUs: 3}}
	other := []*spatev1.ModelCount{
		{Model: "b", Requests: 1, E2EUs: 7}, {Model: "a", Requests: 3, E2EUs: 20, Streamed: 3, TtftUs: 9},
	}
	before := proto.CloneOf(one[0])
	got := measure.AddModels(measure.AddModels(nil, one), other)
	want := []*spatev1.ModelCount{
		{Model: "a", Requests: 5, E2EUs: 30, Streamed: 4, TtftUs: 12}, {Model: "b", Requests: 1, E2EUs: 7},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || !proto.Equal(before, one[0]) {
		t.Error(diff, one)
	}
	for i := range 1000 {
		got = measure.AddModels(got, []*spatev1.ModelCount{{Model: fmt.Sprint(i), Requests: 1}})
	}
	sum := uint64(0)
	for _, m := range got {
		sum += m.GetRequests()
	}
	if sum != 1006 || len(got) != 65 || got[64].GetModel() != measure.OtherModels {
		t.Errorf("%d requests of %d models, the last is %q", sum, len(got), got[len(got)-1].GetModel())
	}
}
