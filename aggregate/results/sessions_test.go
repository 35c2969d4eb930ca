package results

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// distributionOf returns the distribution of some values.
func distributionOf(m spatev1.Metric, values ...int64) *spatev1.Distribution {
	h := histogram.New(histogram.LayoutOf(m))
	for _, v := range values {
		h.Record(v)
	}
	return h.Proto(m)
}

// TestSessionsAreMergedByTurn: what agents measured of turns adds up, and is told only of stages that play sessions.
func TestSessionsAreMergedByTurn(t *testing.T) {
	s := fixture.GoodSnapshot()
	ttft := distributionOf(spatev1.Metric_METRIC_TTFT, 2e6, 4e6)
	s.Turns = []*spatev1.Series{
		{Endpoint: 1, Distributions: []*spatev1.Distribution{ttft}, Counters: &spatev1.Counters{Completed: 2,
			InputTokens: 100, CachedTokens: 40, WithCachedTokens: 2, SharedTokens: 50}},
		{Endpoint: 17, Counters: &spatev1.Counters{Completed: 1, WithoutUsage: 1}},
	}
	more := proto.CloneOf(s)
	more.Key.Sequence, more.Window = 2, 1
	more.Turns = more.Turns[:1]
	rec := fixture.StageRecord(0, 1)
	snapshots := []*spatev1.Snapshot{s, more}
	if r := OfStage(merged(t, rec, snapshots), rec); r.Sessions != nil {
		t.Errorf("a stage without sessions has %+v", r.Sessions)
	}
	rec.Stage.Workload = &spatev1.Workload{Content: &spatev1.Workload_Sessions{Sessions: &spatev1.SessionContent{}}}
	r := OfStage(merged(t, rec, snapshots), rec)
	if len(r.Sessions.Turns) != 2 || r.Sessions.Task != nil {
		t.Fatalf("%+v", r.Sessions)
	}
	one, late := r.Sessions.Turns[0], r.Sessions.Turns[1]
	if one.TTFT.Mean != 3 || one.TTFT.Count != 4 {
		t.Errorf("TTFT %+v", one.TTFT)
	}
	one.TTFT = nil
	if diff := cmp.Diff(TurnResult{From: 1, To: 1, Completed: 4, InputTokens: new(uint64(200)),
		PrefixCache: PrefixCache{SharedShare: new(0.5), CachedShare: new(0.4)}}, one); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(TurnResult{From: 32, To: 63, Completed: 1}, late); diff != "" {
		t.Errorf("a server without usage: %s", diff)
	}
}
