package compare

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
)

// frontierOf returns a frontier whose points are the stages of a run: each load completes as many requests per second
// as says, at 100 ms, and half of them are good. The last load is too high.
func frontierOf(says map[float64]float64, loads ...float64) results.SeriesResult {
	f := results.SeriesResult{Kind: "frontier", Target: "x", Workload: "w", Unit: "concurrency", Latency: "mean E2E", Tolerance: 0.1,
		Converged: true, Objectives: []string{"p99 TTFT ≤ 1000 ms"}, End: new("saturated")}
	for i, load := range loads {
		f.Points = append(f.Points, results.SeriesPoint{Stage: uint32(i), Load: load,
			RequestThroughput: new(says[load]), LatencyMs: new(100.0), Goodput: new(says[load] / 2)})
	}
	best := uint32(len(loads) - 2)
	f.Knee, f.HighestGoodput = &best, &best
	f.Limits = []results.LoadLimit{{Kept: &loads[best], Stage: &best, Broke: &loads[best+1]},
		{Part: new("chat"), Reason: new("p99 ttft 2s > 1s")}}
	return f
}

// frontierSide returns a side of runs with one frontier each.
func frontierSide(name string, runs ...results.SeriesResult) Side {
	s := Side{Name: name}
	for _, f := range runs {
		r := &results.Result{}
		for _, p := range f.Points {
			stage := stageOf("x", "c", 10)
			stage.Index, stage.Probe = p.Stage, &results.Probe{}
			r.Stages = append(r.Stages, stage)
		}
		r.Run.Series = []results.SeriesResult{f}
		s.Runs = append(s.Runs, &Run{Name: name, Result: r})
	}
	return s
}

func answerOf(t *testing.T, a *Against, kind Kind) *Answer {
	t.Helper()
	for i := range a.Answers {
		if a.Answers[i].Kind == kind {
			return &a.Answers[i]
		}
	}
	t.Fatalf("no %s in %+v", kind, a.Answers)
	return nil
}

var (
	fast = map[float64]float64{1: 5, 2: 10, 3: 12, 4: 20, 8: 20}
	slow = map[float64]float64{1: 4, 2: 8, 3: 10, 4: 10, 8: 10}
)

// One run each: the answers are compared though their stages are at other loads, and chance is not known.
func TestAnswersOfFrontiers(t *testing.T) {
	a := compared(t, frontierSide("a", frontierOf(fast, 1, 2, 4, 8)), frontierSide("b", frontierOf(slow, 1, 3, 8)), Options{})
	for kind, want := range map[Kind][2]float64{Knee: {200, 100}, HighestGoodput: {10, 5}, HighestThroughput: {20, 10},
		HighestLoad: {4, 3}} {
		got := answerOf(t, a, kind)
		if d := got.Difference; d.Baseline != want[0] || d.Value != want[1] || d.Outcome != Untested || d.Why == "" ||
			got.BaselineRuns[0].Load != 4 || got.Runs[0].Load != 3 {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	if l := answerOf(t, a, HighestLoad); *l.BaselineRuns[0].Broke != 8 || *l.Runs[0].Broke != 8 {
		t.Errorf("too high: %+v", l)
	}
	if len(a.Unmatched) != 2 || a.Unmatched[1].Why != "b: no load is within the limits (p99 ttft 2s > 1s)" || a.Gaps() != "" {
		t.Errorf("unmatched: %+v, gaps %q", a.Unmatched, a.Gaps()) // the part's limits, which neither has
	}
	if marks := answerOf(t, a, HighestThroughput).Marks; len(marks) != 2 || marks[0] != "baseline: saturated" {
		t.Errorf("marks %q", marks)
	}
}

// The stages of a frontier are compared in the order of their loads, not in that in which they were measured.
func TestStagesOfAFrontierAreInOrder(t *testing.T) {
	side := func(name string) Side {
		s := Side{Name: name, Runs: []*Run{{Name: name, Result: &results.Result{}}}}
		for i, n := range []uint32{1, 64, 23} {
			stage := stageOf("x", "c", 10)
			stage.Load = results.Load{Words: fmt.Sprint("concurrency ", n), Concurrency: &n}
			stage.Index, stage.Probe = uint32(i), &results.Probe{}
			s.Runs[0].Result.Stages = append(s.Runs[0].Result.Stages, stage)
		}
		return s
	}
	var loads []string
	for _, s := range compared(t, side("a"), side("b"), Options{}).Stages {
		loads = append(loads, s.Load)
	}
	if want := []string{"concurrency 1", "concurrency 23", "concurrency 64"}; !slices.Equal(loads, want) {
		t.Errorf("%q, want %q", loads, want)
	}
}

// Three runs each are units: they show chance, and the frontiers' tolerance counts unless all are at one load.
func TestAnswersOfRepeats(t *testing.T) {
	repeats := func(says map[float64]float64, loads ...float64) (all []results.SeriesResult) {
		for range fewestRepeats {
			all = append(all, frontierOf(says, loads...))
		}
		return all
	}
	same := map[float64]float64{1: 5, 2: 10, 4: 19.5, 8: 19.5}
	a := compared(t, frontierSide("a", repeats(fast, 1, 2, 4, 8)...), frontierSide("b", repeats(same, 1, 2, 4, 8)...),
		Options{Tolerance: 0.01})
	if d := answerOf(t, a, HighestThroughput).Difference; d.Outcome != Worse || math.Abs(*d.Low+0.025) > 1e-9 {
		t.Errorf("2.5 %% less at the same load: %+v", d)
	}
	if d := answerOf(t, a, HighestLoad).Difference; d.Outcome != Unclear || math.Abs(*d.Low+0.5) > 1e-9 {
		t.Errorf("between 4 and 8 in both: %+v", d)
	}
	near := map[float64]float64{1: 5, 3: 19.5, 8: 19.5}
	a = compared(t, frontierSide("a", repeats(fast, 1, 2, 4, 8)...), frontierSide("b", repeats(near, 1, 3, 8)...),
		Options{Tolerance: 0.01})
	if d := answerOf(t, a, HighestThroughput).Difference; d.Outcome != Unclear {
		t.Errorf("2.5 %% less at another load, within 10 %%: %+v", d)
	}
	a = compared(t, frontierSide("a", repeats(fast, 1, 2, 4, 8)...), frontierSide("b", repeats(slow, 1, 3, 8)...),
		Options{Tolerance: 0.01})
	if d := answerOf(t, a, Knee).Difference; d.Outcome != Worse || *d.Change != -0.5 {
		t.Errorf("half: %+v", d)
	}
	open := frontierOf(slow, 1, 3, 8)
	open.Converged, open.Reason = false, new("its points are too few")
	a = compared(t, frontierSide("a", frontierOf(fast, 1, 2, 4, 8)), frontierSide("b", open), Options{})
	if d := answerOf(t, a, Knee).Difference; d.Why != "b: not known precisely: its points are too few" {
		t.Errorf("not converged: %+v", d)
	}
}

// Searches are compared by the loads that they found, and what the other side lacks is a gap.
func TestAnswersOfSearches(t *testing.T) {
	search := func(kept float64) Side {
		s := sideOf("s", stageOf("x", "1", 10))
		s.Runs[0].Result.Run.Series = []results.SeriesResult{{Target: "x", Workload: "w", Unit: "rate", Converged: true,
			Limits: []results.LoadLimit{{Kept: &kept, Stage: new(uint32(0)), Broke: new(2 * kept)}}}}
		return s
	}
	a := compared(t, search(4), search(6), Options{})
	if d := answerOf(t, a, HighestLoad).Difference; *d.Change != 0.5 || d.Unit != "req/s" || a.Gaps() != "" {
		t.Errorf("%+v, gaps %q", d, a.Gaps())
	}
	if gaps := compared(t, search(4), sideOf("b", stageOf("x", "1", 10)), Options{}).Gaps(); gaps == "" {
		t.Error("the other side has no search, and there is no gap")
	}
}
