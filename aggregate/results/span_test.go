package results

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/trust"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// withSpans merges runs of consecutive snapshots of each agent, as agents do while their coordinator is unreachable,
// and numbers the resulting snapshots.
func withSpans(t *rapid.T, all []*spatev1.Snapshot) (out []*spatev1.Snapshot) {
	numbers := make(map[string]uint64)
	for len(all) > 0 {
		n, agent := 1, all[0].GetKey().GetAgent()
		for limit := rapid.IntRange(1, 6).Draw(t, "windows"); n < len(all) && n < limit &&
			all[n].GetKey().GetAgent() == agent; {
			n++
		}
		s := proto.CloneOf(all[0])
		if n > 1 {
			s = fixture.MergedInto(all[:n])
		}
		numbers[agent]++
		s.Key = proto.CloneOf(s.GetKey())
		s.Key.Sequence = numbers[agent]
		if s.Totals != nil {
			s.Totals = proto.CloneOf(s.GetTotals())
			s.Totals.Snapshots = numbers[agent]
		}
		out, all = append(out, s), all[n:]
	}
	return out
}

// Merged windows affect only numbers about single windows: the peak throughput does not grow, the steady part does not
// get longer, its numbers are exact, and the peak concurrency is still an upper bound.
func TestSnapshotsOfSeveralWindows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rec := fixture.StageRecord(0, 2)
		requests := anyRequests(rt, 2)
		all := fixture.Recorded(rec, requests, fixture.EndWindow)
		for _, s := range all {
			if s.GetTotals() != nil {
				s.Totals.SteadyFromNs, s.Totals.SteadyToNs = new(int64(2e9)), new(int64(18e9))
			}
		}
		single := merged(t, rec, all)
		stage := merged(t, rec, withSpans(rt, all))
		want, got := OfStage(single, rec), OfStage(stage, rec)
		if !got.Complete {
			rt.Fatal(got.Missing)
		}
		if p := got.PeakOutputTokenThroughput; p != nil && *p > *want.PeakOutputTokenThroughput {
			rt.Fatalf("peak of %v, was %v", *p, *want.PeakOutputTokenThroughput)
		}
		if s := got.Steady; s != nil {
			if s.FromS < want.Steady.FromS || s.ToS > want.Steady.ToS {
				rt.Fatalf("steady from %v to %v, was %v to %v", s.FromS, s.ToS, want.Steady.FromS, want.Steady.ToS)
			}
			var alone *Steady
			single.Read(rec, func(m *merge.Sums) { alone = sums{m}.steadyBetween(int64(s.FromS), int64(s.ToS)) })
			if diff := cmp.Diff(alone, s); diff != "" {
				rt.Fatalf("steady part:\n%s", diff)
			}
		}
		if got.PeakConcurrency.Requests < want.PeakConcurrency.Requests {
			rt.Fatalf("at most %d at once, were %d", got.PeakConcurrency.Requests, want.PeakConcurrency.Requests)
		}
		for _, r := range []*StageResult{&want, &got} {
			r.PeakOutputTokenThroughput, r.Steady, r.PeakConcurrency = nil, nil, nil
			r.VLLM.PeakOutputTokenThroughput, r.VLLM.PeakConcurrentRequests = nil, nil
			r.Trust.Checks = slices.DeleteFunc(r.Trust.Checks, func(c trust.Check) bool {
				return c.Name == "peak"
			})
			r.Trust.Notes = nil // several windows in one hide that one of them was silent
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// The view of a merged window has the number of its windows, and its rate is not a spike.
func TestViewOfSeveralWindows(t *testing.T) {
	rec := fixture.StageRecord(0, 2)
	all := fixture.Recorded(rec, fixture.SteadyRequests(2, 50), fixture.EndWindow)
	stage := merge.NewStage(rec)
	for _, s := range append([]*spatev1.Snapshot{fixture.MergedInto(all[:4])}, all[5:]...) {
		if err := stage.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	v, _ := stage.Window(3)
	// 40 requests of a and 10 of b ended in window 3, with 4 tokens each.
	if v.Total.Windows != 4 || v.Total.Counters.GetTokensArrived() != 200 || *stage.Arrivals(3).Tokens != 80 ||
		v.PeakInFlight != 6 {
		t.Errorf("%d windows, %d tokens, %v a second, %d in flight",
			v.Total.Windows, v.Total.Counters.GetTokensArrived(), *stage.Arrivals(3).Tokens, v.PeakInFlight)
	}
	for i, want := range []uint32{4, 1} {
		if v.Regions[i].Measured.Windows != want || v.Agents[i].Measured.Windows != want {
			t.Errorf("%s: %d windows", v.Regions[i].Name, v.Regions[i].Measured.Windows)
		}
	}
	if v, _ := stage.Window(2); v.PeakInFlight != 6 || *stage.Arrivals(2).Tokens != 40 || v.Total.Windows != 1 {
		t.Errorf("window 2: %d in flight, %v tokens a second", v.PeakInFlight, *stage.Arrivals(2).Tokens)
	}
	if p := OfStage(stage, rec).PeakOutputTokenThroughput; *p != 40 {
		t.Errorf("peak %v: only the last window is known by itself", *p)
	}
}
