package results

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/trust"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestGoodput(t *testing.T) {
	slo := &spatev1.SLO{Ttft: durationpb.New(500 * time.Millisecond), Tpot: durationpb.New(50 * time.Millisecond)}
	c := &spatev1.Counters{Completed: 6, Failed: 2, Good: 4}
	want := &Goodput{TTFTMs: new(500.0), TPOTMs: new(50.0), Requests: 4, RequestThroughput: new(2.0), Share: new(0.5)}
	if diff := cmp.Diff(want, goodputOf(slo, c, new(2.0))); diff != "" {
		t.Error(diff)
	}
	if g := goodputOf(nil, c, new(2.0)); g != nil {
		t.Errorf("without an SLO: %+v", g)
	}
	if g := goodputOf(slo, &spatev1.Counters{}, nil); g.Share != nil || g.RequestThroughput != nil {
		t.Errorf("of no requests: %+v", g)
	}
}

// A share is known only if it is known for every request.
func TestPrefixCache(t *testing.T) {
	for what, c := range map[string]struct {
		counters *spatev1.Counters
		want     PrefixCache
	}{
		"all told": {&spatev1.Counters{Completed: 2, InputTokens: 100, SharedTokens: 50, CachedTokens: 48,
			WithCachedTokens: 2}, PrefixCache{new(0.5), new(0.48)}},
		"some not told": {&spatev1.Counters{Completed: 2, InputTokens: 100, SharedTokens: 50, CachedTokens: 48,
			WithCachedTokens: 1}, PrefixCache{new(0.5), nil}},
		"no usage": {&spatev1.Counters{Completed: 2, WithoutUsage: 1, SharedTokens: 50}, PrefixCache{}},
		"none":     {&spatev1.Counters{}, PrefixCache{}},
	} {
		if diff := cmp.Diff(c.want, prefixCacheOf(c.counters)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}

// Agents that found the same share one entry, whose requests are those of all of them.
func TestPreparations(t *testing.T) {
	same := func(requests uint32) *spatev1.AssignedAgent {
		return &spatev1.AssignedAgent{Preparation: &spatev1.Preparation{Lengths: "words",
			TemplateTokens: new(uint32(9)), Notes: []string{"n"}, Requests: requests}}
	}
	other := &spatev1.AssignedAgent{Preparation: &spatev1.Preparation{
		Lengths: "words", ExactOutput: true, ExactOutputBy: "tried", RunningUsage: true, Requests: 7, Server: "vllm",
		MaxModelTokens: new(uint32(4096)),
	}}
	got := preparationsOf(&spatev1.StageRecord{Agents: []*spatev1.AssignedAgent{same(5), other, {}, same(6)}})
	want := []Preparation{
		{Agents: 2, Lengths: "words", TemplateTokens: new(uint32(9)), Notes: []string{"n"}, Requests: 11},
		{
			Agents: 1, Lengths: "words", ExactOutput: true, ExactOutputBy: new("tried"), RunningUsage: true,
			Requests: 7, Server: "vllm",
			MaxModelTokens: new(uint32(4096)), Notes: []string{},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSeries(t *testing.T) {
	keep := &spatev1.Objectives{
		Latencies: []*spatev1.Limit{
			{Metric: "ttft", Percentile: 99.9, AtMost: durationpb.New(500 * time.Millisecond)},
			{Metric: "tpot", AtMost: durationpb.New(time.Second)},
		},
		ErrorShare: new(0.01), Goodput: new(0.95),
	}
	got := seriesOf([]*spatev1.SeriesRecord{
		{Series: 1, Target: "t", Workload: "w", Load: &spatev1.LoadPoint{Search: &spatev1.Search{Keep: keep, Precision: 0.03}},
			Limits: []*spatev1.LoadLimit{{Kept: new(42.5), Broke: new(43.0), Reason: "r", StageIndex: 7}},
			Stages: 9, Converged: true, Overruled: 2, Caution: "c", Sentence: "s",
			Points: []*spatev1.SeriesPoint{{StageIndex: 7, Load: 42.5}, {StageIndex: 8, Load: 43, Broke: "b"}}},
		{Series: 2, Load: &spatev1.LoadPoint{Frontier: &spatev1.Frontier{Concurrency: &spatev1.Bounds{}, Metric: "e2e"}},
			Limits: []*spatev1.LoadLimit{{Broke: new(1.0)}}, Stages: 1, End: "e"},
		{Series: 3, Target: "a", Load: &spatev1.LoadPoint{Concurrency: 8, Choose: &spatev1.Choose{Best: "ttft",
			Percentile: 99, Tolerance: 0.01}}, Stages: 5, Rivals: []*spatev1.Rival{
			{Target: "a", Stages: []uint32{0, 3, 4}},
			{Target: "b", Stages: []uint32{1, 2}, Change: new(0.1), Low: new(0.05), High: new(0.15), Dropped: "r"}}},
	}, nil)
	want := []SeriesResult{
		{
			Series: 1, Kind: "search", Target: "t", Workload: "w", Unit: "rate", Tolerance: 0.03,
			Limits: []LoadLimit{{Kept: new(42.5), Broke: new(43.0), Reason: new("r"), Stage: new(uint32(7))}},
			Rivals: []Rival{},
			Stages: 9, Converged: true, Overruled: 2, Caution: new("c"), Sentence: "s",
			Points: []SeriesPoint{{Stage: 7, Load: 42.5}, {Stage: 8, Load: 43, Reason: new("b")}},
			Objectives: []string{"p99.9 TTFT ≤ 500 ms", "mean TPOT ≤ 1000 ms", "failed requests ≤ 1 %",
				"good requests ≥ 95 %"},
		},
		{Series: 2, Kind: "frontier", Unit: "concurrency", Latency: "mean E2E", Objectives: []string{},
			Limits: []LoadLimit{{Broke: new(1.0)}}, Stages: 1, Points: []SeriesPoint{}, End: new("e"), Rivals: []Rival{}},
		{Series: 3, Kind: "choice", Target: "a", Unit: "concurrency", Best: "p99 TTFT", Tolerance: 0.01, Stages: 5,
			Objectives: []string{}, Limits: []LoadLimit{}, Points: []SeriesPoint{}, Rivals: []Rival{
				{Target: "a", Stages: []uint32{0, 3, 4}},
				{Target: "b", Stages: []uint32{1, 2}, Change: new(0.1), Low: new(0.05), High: new(0.15), Reason: new("r")}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestObjectivesInWords(t *testing.T) {
	got := objectives(&spatev1.Objectives{ErrorShare: new(0.07), Goodput: new(0.9995)})
	if want := []string{"failed requests ≤ 7 %", "good requests ≥ 99.95 %"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestToolCallsAndAnswersAreKnownOnlyWhereAskedFor(t *testing.T) {
	none := &spatev1.Counters{Completed: 3}
	if toolsOf(none) != nil || answersOf(none) != nil {
		t.Error("counts of what no request asked for")
	}
	c := &spatev1.Counters{
		Completed: 9, WithTools: 8, WithToolCalls: 3, ToolCalls: 4, ValidToolCalls: 3,
		CheckedAnswers: 5, ValidAnswers: 4,
	}
	if diff := cmp.Diff(&ToolCalls{8, 3, 4, 3, new(0.75)}, toolsOf(c)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&CheckedAnswers{5, 4, new(0.8)}, answersOf(c)); diff != "" {
		t.Error(diff)
	}
	if got := toolsOf(&spatev1.Counters{WithTools: 2}); got.ValidShare != nil {
		t.Errorf("a share %v of no calls", *got.ValidShare)
	}
}

func TestEndingsAreThoseOfCompletedAndAbortedRequests(t *testing.T) {
	if e := endingsOf(&merge.Tally{Counters: &spatev1.Counters{Completed: 3}}); e != nil {
		t.Errorf("without finish reasons: %+v", e)
	}
	c := &spatev1.Counters{
		Completed: 9, EndedStop: 1, EndedLength: 2, EndedToolCalls: 1, EndedFiltered: 1, EndedOther: 1,
	}
	if got := *endingsOf(&merge.Tally{Counters: c}); got != (Endings{1, 2, 1, 1, 1, 3, 0}) {
		t.Errorf("%+v", got)
	}
}

func TestAnswerModels(t *testing.T) {
	got := answerModels(&merge.Tally{Models: []*spatev1.ModelCount{
		{Model: "whole", Requests: 1, E2EUs: 5000}, {Model: "b", Requests: 2, E2EUs: 3000, Streamed: 2, TtftUs: 1000},
	}})
	want := []trust.AnswerModel{{Name: "b", Requests: 2, MeanTTFTMs: new(0.5), MeanE2EMs: 1.5},
		{Name: "whole", Requests: 1, MeanE2EMs: 5}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Canaries are those of the endpoint and of the stage. A result without them has none.
func TestCanariesAreThoseOfTheLoadAndOfTheQuietServer(t *testing.T) {
	c := &spatev1.Counters{Canaries: 50, CanariesDiffering: 5, CanariesFailed: 2, CanaryTasks: 10, CanaryTasksRight: 8,
		CanaryWordsAlike: 10}
	agents := []*spatev1.AssignedAgent{{}, {Preparation: &spatev1.Preparation{Canaries: []*spatev1.QuietCount{
		{Asked: 100, Differing: 1, Tasks: 20, Right: 20}, {Asked: 100, Tasks: 20, Right: 20},
	}}}}
	want := &Canaries{CanaryAnswers{200, 1, new(0.005), nil, 40, 40, new(1.0)},
		CanaryAnswers{50, 5, new(0.1), new(3.0), 10, 8, new(0.8)}, 2}
	if diff := cmp.Diff(want, canariesOf(c, quietOf(agents))); diff != "" {
		t.Error(diff)
	}
	if got := canariesOf(c, quietOf(agents[:1])); got != nil {
		t.Errorf("canaries that were not asked: %+v", got)
	}
}
