package results

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// measured is what a simulation measured of a plan at ten times its pace.
func measured() *Result {
	s := StageResult{
		Load: Load{Words: "80 req/s poisson, stagger 100ms", Rate: new(80.0),
			Phases: []Phase{{From: 10, To: 80, DurationS: 2}}},
		DurationS: new(2.5), RequestThroughput: new(79.0),
		Requests: Requests{Outcomes: Outcomes{Completed: 200}},
	}
	s.TTFT = &histogram.Summary{Count: 200, Mean: 1.5, P99: 4}
	closed := StageResult{Load: Load{Words: "concurrency 8", Concurrency: new(uint32(8)),
		Phases: []Phase{{From: 1, To: 8, DurationS: 2}}}}
	return &Result{
		Stages: []StageResult{s, closed},
		Repeats: []Repeats{{Outcomes: Outcomes{Started: 400}, DurationS: new(5.0), RequestThroughput: new(79.0),
			Spreads: []RepeatSpread{{Metric: "request_throughput", Mean: 80, Low: 70},
				{Metric: "ttft_ms.p50", Mean: 2, Std: 0.5}, {Metric: "goodput.share", Mean: 0.5}}}},
		Run: RunResult{TimeCompression: new(10.0), Missing: []string{"stage 1: seconds 1 to 4 are missing"}, Series: []SeriesResult{
			{Unit: "rate", MeanThroughput: new(79.0), Objectives: []string{"p99 TTFT <= 50 ms"},
				Limits: []LoadLimit{{Kept: new(80.0), Broke: new(85.5), Reason: new("p99 TTFT 81.23 ms > 50 ms")}}},
			{Unit: "concurrency", Limits: []LoadLimit{{Kept: new(8.0)}}},
		}},
	}
}

// Rates become lower and times longer by the factor; counts and concurrencies stay, and what was measured is unchanged.
func TestOf(t *testing.T) {
	r := measured()
	got := InPlanTime(r)
	if !reflect.DeepEqual(r, measured()) {
		t.Error("the measured result was changed")
	}
	s := got.Stages[0]
	if s.Load.Words != "8 req/s poisson, stagger 1000ms" || *s.Load.Rate != 8 || *s.DurationS != 25 ||
		*s.RequestThroughput != 7.9 || s.Requests.Completed != 200 || s.TTFT.Mean != 15 || s.TTFT.P99 != 40 ||
		s.TTFT.Count != 200 {
		t.Errorf("stage %+v, TTFT %+v", s, s.TTFT)
	}
	if p := s.Load.Phases[0]; p.From != 1 || p.To != 8 || p.DurationS != 20 {
		t.Errorf("phase of a rate %+v", p)
	}
	if p := got.Stages[1].Load.Phases[0]; p.From != 1 || p.To != 8 || p.DurationS != 20 {
		t.Errorf("phase of a concurrency %+v", p)
	}
	r0 := got.Repeats[0]
	if r0.Started != 400 || *r0.DurationS != 50 || *r0.RequestThroughput != 7.9 || r0.Spreads[0].Mean != 8 ||
		r0.Spreads[0].Low != 7 || r0.Spreads[1].Mean != 20 || r0.Spreads[1].Std != 5 || r0.Spreads[2].Mean != 0.5 {
		t.Errorf("repeats %+v", r0)
	}
	x := got.Run.Series[0]
	if l := x.Limit(); *l.Kept != 8 || *l.Broke != 8.55 || *x.MeanThroughput != 7.9 || x.Objectives[0] != "p99 TTFT <= 500 ms" ||
		*l.Reason != "p99 TTFT 812.3 ms > 500 ms" || *got.Run.Series[1].Limit().Kept != 8 {
		t.Errorf("series %+v", got.Run.Series)
	}
	if got.Run.Missing[0] != "stage 1: seconds 10 to 40 are missing" {
		t.Errorf("missing %q", got.Run.Missing)
	}
	if got.Run.TimeCompression != nil || InPlanTime(got) != got {
		t.Error("converted twice")
	}
}

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"1 to 50 to 1 req/s constant": "0.1 to 5 to 0.1 req/s constant",
		"replay x10":                  "replay x1", "concurrency 1 to 8": "concurrency 1 to 8",
		"5 phases up to 80 req/s": "5 phases up to 8 req/s", "p99 ttft 31ms > 25ms": "p99 ttft 310ms > 250ms",
		"goodput 0.95, at most 512 in flight": "goodput 0.95, at most 512 in flight",
	} {
		if got := WordsInPlanTime(text, 10); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// What a number is, is known by its name.
func TestFactor(t *testing.T) {
	for name, want := range map[string]float64{"duration_s": 10, "ttft_ms": 10, "output_token_throughput": 0.1, "rate": 0.1,
		"share": 1, "burstiness": 1, "from": 1, "p99": 1} {
		if got := (&converter{k: 10}).factor(name, false); got != want {
			t.Errorf("%s is multiplied by %v, want %v", name, got, want)
		}
	}
}

func TestEvent(t *testing.T) {
	progress := &spatev1.RunEvent{Event: &spatev1.RunEvent_StageProgress{StageProgress: &spatev1.StageProgress{
		Elapsed: durationpb.New(time.Second), Completed: 40, OutputTokensPerSecond: new(240.0), FramesPerSecond: 250,
		Ttft: &spatev1.Quantiles{P50Ms: 7, P99Ms: 20},
	}}}
	got := EventInPlanTime(progress, 10).GetStageProgress()
	if got.GetElapsed().AsDuration() != time.Second || got.GetCompleted() != 40 ||
		got.GetOutputTokensPerSecond() != 24 || got.GetFramesPerSecond() != 25 || got.GetTtft().GetP99Ms() != 200 ||
		progress.GetStageProgress().GetFramesPerSecond() != 250 {
		t.Errorf("%v of %v", got, progress)
	}
	started := &spatev1.RunEvent{Event: &spatev1.RunEvent_StageStarted{
		StageStarted: &spatev1.StageStarted{Load: "80 req/s poisson"},
	}}
	if got := EventInPlanTime(started, 10).GetStageStarted().GetLoad(); got != "8 req/s poisson" {
		t.Error(got)
	}
	for text, want := range map[string]string{
		"search of a, 10s: 80 req/s was too high (p95 TTFT 4 ms > 3 ms)": "search of a, 10s: 8 req/s was too high (p95 TTFT 40 ms > 30 ms)",
		"agent a: no heartbeat for 3.5 s":                                "agent a: no heartbeat for 3.5 s",
	} {
		notice := &spatev1.RunEvent{Event: &spatev1.RunEvent_Notice{Notice: &spatev1.Notice{Text: text}}}
		if got := EventInPlanTime(notice, 10).GetNotice().GetText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	part := func() *spatev1.WindowPart {
		return &spatev1.WindowPart{Completed: 3, FramesPerSecond: 50, OutputTokensPerSecond: new(40.0),
			Distributions: []*spatev1.WindowDistribution{{Metric: "ttft_ms", Count: 3, Mean: 2, P50: 1, P90: 3, P99: 4, Max: 5},
				{Metric: "osl_tokens", Count: 3, Mean: 2, Max: 5}}}
	}
	window := &spatev1.RunEvent{Event: &spatev1.RunEvent_StageWindow{StageWindow: &spatev1.StageWindow{
		Number: 7, Whole: part(), Regions: []*spatev1.WindowPart{part()}, Agents: []*spatev1.WindowPart{part(), part()},
	}}}
	want := &spatev1.WindowPart{Completed: 3, FramesPerSecond: 5, OutputTokensPerSecond: new(4.0),
		Distributions: []*spatev1.WindowDistribution{{Metric: "ttft_ms", Count: 3, Mean: 20, P50: 10, P90: 30, P99: 40, Max: 50},
			{Metric: "osl_tokens", Count: 3, Mean: 2, Max: 5}}}
	w := EventInPlanTime(window, 10).GetStageWindow()
	for _, got := range slices.Concat([]*spatev1.WindowPart{w.GetWhole()}, w.GetRegions(), w.GetAgents()) {
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || w.GetNumber() != 7 {
			t.Errorf("window %d (-want +got):\n%s", w.GetNumber(), diff)
		}
	}
	if EventInPlanTime(started, 1) != started || EventInPlanTime(started, 0) != started {
		t.Error("an event of a run at the plan's pace was changed")
	}
}
