package thresholds

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// stage returns a complete and valid stage.
func stage(change ...func(*results.StageResult)) *results.StageResult {
	s := &results.StageResult{Target: "t", Workload: "w", Load: results.Load{Words: "concurrency 8"}, Complete: true,
		Trust: trust.Trust{Verdict: trust.Valid}}
	for _, c := range change {
		c(s)
	}
	return s
}

// ttft gives a stage a p99 of TTFT.
func ttft(p99 float64) func(*results.StageResult) {
	return func(s *results.StageResult) { s.TTFT = &histogram.Summary{P99: p99, Mean: p99 / 2, Count: 10} }
}

func load(words string) func(*results.StageResult) {
	return func(s *results.StageResult) { s.Load.Words = words }
}

func run(stages ...*results.StageResult) *results.Result {
	r := &results.Result{}
	for i, s := range stages {
		s.Index = uint32(i)
		r.Stages = append(r.Stages, *s)
	}
	return r
}

// one evaluates a condition for all stages.
func one(t *testing.T, that string, r, base *results.Result) results.Threshold {
	t.Helper()
	return Evaluate([]*spatev1.Threshold{{That: that}}, FromPlan, r, base)[0]
}

func TestConditions(t *testing.T) {
	s := stage(ttft(450), func(s *results.StageResult) {
		s.Requests = results.Requests{Outcomes: results.Outcomes{Started: 200, Completed: 198, Failed: 2}}
		s.Errors = map[string]uint64{"http_429": 2}
		s.Model = "meta llama"
		s.RequestThroughput = new(12.5)
		s.Goodput = &results.Goodput{}
	})
	for that, want := range map[string]struct {
		passed bool
		words  string
	}{
		"ttft_ms.p99 < 500":                           {true, "450"},
		"ttft_ms.p99 <= 450":                          {true, "450"},
		"ttft_ms.p99 < 450":                           {false, "450 ms, want < 450 ms"},
		"ttft_ms.p99 > 449.5":                         {true, "450"},
		"ttft_ms.p99 >= 450.5":                        {false, "450 ms, want >= 450.5 ms"},
		"ttft_ms.p99 = 450":                           {true, "450"},
		"ttft_ms.p99 != 450":                          {false, "450 ms, want != 450 ms"},
		"ttft_ms.p99 <= 2 * ttft_ms.mean":             {true, "450"},
		"requests.failed / requests.started <= 0.005": {false, "0.01, want <= 0.005"},
		"requests.failed * 2.5 == 5":                  {true, "5"},
		"requests.failed < -1":                        {false, "2, want < -1"},
		"errors.http_429 == 0":                        {false, "2, want = 0"},
		"errors.http_500 = 0":                         {true, "0"},
		"verdict = VALID":                             {true, "VALID"},
		"trust.verdict != VALID":                      {false, "VALID, want != VALID"},
		"complete = true":                             {true, "true"},
		`model = "meta llama"`:                        {true, "meta llama"},
		"request_throughput >= 12.5":                  {true, "12.5"},
		"goodput.share >= 0.95":                       {false, "goodput.share is not known"},
		"tpot_ms.p99 < 20":                            {false, "tpot_ms.p99 is not known"},
		"requests.failed / errors.http_500 < 3":       {false, "2 / 0 is not a number"},
		"ttft_ms.p99 < baseline":                      {false, "there is no baseline: give --baseline"},
		"ttft_ms.p99 * 1000000 < 1":                   {false, "450000000, want < 1"},
	} {
		got := one(t, that, run(s), nil)
		if got.Passed != want.passed || len(got.Stages) != 1 || got.Stages[0].Words != strings.Replace(want.words, "want = ", "want ", 1) {
			t.Errorf("%s: %+v", that, got)
		}
	}
}

// TestOnlyGoodStagesPass: a stage that is INVALID or incomplete fails every condition.
func TestOnlyGoodStagesPass(t *testing.T) {
	for want, s := range map[string]*results.StageResult{
		"the stage is INVALID: 10":                          stage(ttft(10), func(s *results.StageResult) { s.Trust.Verdict = trust.Invalid }),
		"the stage is incomplete: 10":                       stage(ttft(10), func(s *results.StageResult) { s.Complete = false }),
		"the stage is INVALID, the stage is incomplete: 10": stage(ttft(10), func(s *results.StageResult) { s.Complete, s.Trust.Verdict = false, trust.Invalid }),
	} {
		got := one(t, "ttft_ms.p99 < 500", run(stage(ttft(1)), s), nil)
		if got.Passed || !got.Stages[0].Passed || got.Stages[1].Passed || got.Stages[1].Words != want {
			t.Errorf("%s: %+v", want, got)
		}
	}
}

// TestScope: a threshold is for the stages of its target, workload and load, and needs at least one.
func TestScope(t *testing.T) {
	r := run(stage(ttft(900)), stage(ttft(1), load("2 req/s poisson")))
	wanted := []*spatev1.Threshold{
		{That: "ttft_ms.p99 < 5", Load: "2 req/s poisson"}, {That: "ttft_ms.p99 < 5", Target: "t", Workload: "w"},
		{That: "ttft_ms.p99 < 5", Target: "other"}, {That: "nonsense"},
	}
	var got []string
	for _, o := range Evaluate(wanted, FromFlag, r, nil) {
		got = append(got, fmt.Sprint(o.Passed, len(o.Stages), o.Reason != nil))
	}
	if want := []string{"true 1 false", "false 2 false", "false 0 true", "false 0 true"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// mixture gives a stage a part of a mixture.
func mixture(part string, p99 float64, failures uint64) func(*results.StageResult) {
	return func(s *results.StageResult) {
		p := results.PartResult{Name: part, Errors: map[string]uint64{"http_429": failures}}
		p.TTFT = &histogram.Summary{P99: p99}
		s.Parts = append(s.Parts, p)
	}
}

// TestParts: a threshold for a part reads the part's numbers, in the stages whose mixture has it, and is compared with
// the same part in the baseline.
func TestParts(t *testing.T) {
	r := run(stage(ttft(900), mixture("chat", 90, 0), mixture("batch", 2000, 3)), stage(ttft(1)),
		stage(mixture("batch", 5, 0), load("concurrency 9")))
	base := run(stage(mixture("chat", 100, 0)))
	incomplete := run(stage(mixture("chat", 90, 0), func(s *results.StageResult) { s.Complete = false }))
	for _, tc := range []struct {
		that, part string
		r          *results.Result
		passed     bool
		words      []string
	}{
		{"ttft_ms.p99 < 100", "chat", r, true, []string{"90"}},
		{"ttft_ms.p99 < 100", "batch", r, false, []string{"2000 ms, want < 100 ms", "5"}},
		{"errors.http_429 = 0", "batch", r, false, []string{"3, want 0", "0"}},
		{"ttft_ms.p99 <= baseline", "chat", r, true, []string{"90"}},
		{"ttft_ms.p99 <= baseline", "batch", r, false, []string{"in the baseline, the stage has no part batch",
			"the baseline has no stage of t, w, concurrency 9"}},
		{"goodput.share > 0", "chat", r, false, []string{"goodput.share is not known"}},
		{"ttft_ms.p99 < 100", "chat", incomplete, false, []string{"the stage is incomplete: 90"}},
		{"ttft_ms.p99 < 100", "other", r, false, nil},
	} {
		got := Evaluate([]*spatev1.Threshold{{That: tc.that, Part: tc.part}}, FromPlan, tc.r, base)[0]
		var words []string
		for _, s := range got.Stages {
			words = append(words, s.Words)
		}
		if got.Passed != tc.passed || !slices.Equal(words, tc.words) || *got.Part != tc.part ||
			(got.Reason != nil) != (tc.words == nil) {
			t.Errorf("%s of %s: %v, %q, want %v, %q", tc.that, tc.part, got.Passed, words, tc.passed, tc.words)
		}
	}
}

// searched returns a run of a search that found a load at its second probe.
func searched(found uint32, p99 ...float64) *results.Result {
	var stages []*results.StageResult
	for i, v := range p99 {
		probe := func(s *results.StageResult) { s.Probe = &results.Probe{Number: uint32(i)} }
		stages = append(stages, stage(ttft(v), probe, load(fmt.Sprint(v, " req/s"))))
	}
	r := run(stages...)
	r.Run.Series = []results.SeriesResult{{Kind: "search", Limits: []results.LoadLimit{{Stage: &found}}}}
	return r
}

// TestSearch: of a search only the stage at the load that was found is compared, with that of the baseline's search.
func TestSearch(t *testing.T) {
	got := one(t, "ttft_ms.p99 <= baseline * 1.1", searched(1, 900, 105, 800), searched(0, 100, 999))
	if !got.Passed || len(got.Stages) != 1 || got.Stages[0].Index != 1 || *got.Stages[0].Limit < 109 {
		t.Errorf("%+v", got)
	}
}

func TestBaseline(t *testing.T) {
	repeat := func(n uint32) func(*results.StageResult) {
		return func(s *results.StageResult) { s.Load.Repeat = n }
	}
	invalid := func(s *results.StageResult) { s.Trust.Verdict = trust.Invalid }
	r := run(stage(ttft(103)))
	other, compressed := run(stage(ttft(100))), run(stage(ttft(100)))
	other.Run.Definitions, compressed.Run.TimeCompression = 7, new(10.0)
	for name, tc := range map[string]struct {
		base  *results.Result
		words string
	}{
		"met":         {run(stage(ttft(1), load("concurrency 4")), stage(ttft(100))), "103"},
		"missed":      {run(stage(ttft(99))), "103 ms, want <= 101.97 ms"},
		"own repeat":  {run(stage(ttft(100), repeat(0)), stage(ttft(1), repeat(1))), "103"},
		"other loads": {run(stage(ttft(100), load("concurrency 9"))), "the baseline has no stage of t, w, concurrency 8"},
		"other workloads": {run(stage(ttft(100), func(s *results.StageResult) { s.Workload = "x" })),
			"the baseline has no stage of t, w, concurrency 8"},
		"unknown":     {run(stage()), "in the baseline, ttft_ms.p99 is not known"},
		"invalid":     {run(stage(ttft(100), invalid)), "in the baseline, the stage is INVALID"},
		"definitions": {other, "the numbers of the baseline are defined otherwise (definitions 7, and 0 here): measure it again"},
		"compression": {compressed, "the times of the baseline are compressed 10 times, and 1 times here"},
	} {
		got := one(t, "ttft_ms.p99 <= baseline * 1.03", r, tc.base)
		if passed := tc.words == "103"; got.Passed != passed || got.Stages[0].Words != tc.words {
			t.Errorf("%s: %+v", name, got.Stages)
		}
	}
}
