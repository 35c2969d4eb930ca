package results

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// If the plan itself has fewer requests in flight than slots, fewer requests in flight are not a flaw.
func TestSteadyConcurrency(t *testing.T) {
	think := &spatev1.ThinkTime{Mean: durationpb.New(time.Second)}
	sessions := func(p *spatev1.SessionPlay) *spatev1.Workload {
		return &spatev1.Workload{Content: &spatev1.Workload_Sessions{Sessions: &spatev1.SessionContent{Play: p}}}
	}
	for name, c := range map[string]struct {
		load     *spatev1.LoadPoint
		workload *spatev1.Workload
		want     uint64 // 0: none
	}{
		"closed loop": {&spatev1.LoadPoint{Concurrency: 32, Requests: 320}, nil, 32},
		"sessions": {&spatev1.LoadPoint{Concurrency: 32, Requests: 40},
			sessions(&spatev1.SessionPlay{}), 32},
		"as many as slots": {&spatev1.LoadPoint{Concurrency: 32, Requests: 20, WarmupRequests: 12}, nil, 32},
		"by time": {&spatev1.LoadPoint{Concurrency: 32, Duration: durationpb.New(time.Second)}, nil,
			32},
		"open loop":  {&spatev1.LoadPoint{Rate: 3}, nil, 0},
		"phases":     {&spatev1.LoadPoint{Concurrency: 32, Phases: []*spatev1.Phase{{}}}, nil, 0},
		"think time": {&spatev1.LoadPoint{Concurrency: 32, ThinkTime: think}, nil, 0},
		"think time of sessions": {&spatev1.LoadPoint{Concurrency: 32, Requests: 40},
			sessions(&spatev1.SessionPlay{ThinkTime: think}), 0},
		"think time of conversations": {&spatev1.LoadPoint{Concurrency: 32, Requests: 40},
			&spatev1.Workload{Content: &spatev1.Workload_Sharegpt{
				Sharegpt: &spatev1.FileContent{Sessions: &spatev1.SessionPlay{ThinkTime: think}},
			}}, 0},
		"fewer sessions than slots": {&spatev1.LoadPoint{Concurrency: 32, Requests: 10, WarmupRequests: 21},
			sessions(nil), 0},
	} {
		var got uint64
		if asked := steadyConcurrency(&spatev1.Stage{Load: c.load, Workload: c.workload}); asked != nil {
			got = *asked
		}
		if got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// A percentile of ten values is marked, and so is a number that a check touches, by itself or with its distribution.
func TestMarks(t *testing.T) {
	h := histogram.New(histogram.Times)
	for v := range int64(10) {
		h.Record((v + 1) * 1e6)
	}
	r := StageResult{Latencies: Latencies{TTFT: h.Summary(1e6), E2E: h.Summary(1e6)}}
	r.Trust.Checks = []trust.Check{{Touches: []string{"ttft_ms.mean", "e2e_ms"}}}
	for number, want := range map[string]string{
		"ttft_ms.p99": OfFew, "ttft_ms.mean": Doubted, "e2e_ms.p99": Doubted, "tpot_ms.p99": "", "ttft_ms.max": "",
		"request_throughput": "",
	} {
		if got := r.Mark(number); got != want {
			t.Errorf("%s has the mark %q, want %q", number, got, want)
		}
	}
	const want = "p99 of 10 requests, 95 % confidence: E2E from 8.99, TTFT from 8.99 ms"
	if got := r.FewWords("p99"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (&StageResult{}).FewWords("p99"); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

// A part that asks for several models may be answered by several.
func TestSeveralModelsOfAPartAreNoMixUp(t *testing.T) {
	named := []trust.AnswerModel{{Name: "a", Requests: 2}, {Name: "b", Requests: 1}}
	r := &StageResult{Parts: []PartResult{{AnswerModels: named[:1]}, {AnswerModels: named}}}
	mix := &spatev1.Mixture{Parts: []*spatev1.Part{{}, {Models: &spatev1.Models{Prefix: "lora-", Count: 2}}}}
	if got := answeredBy(r, mix); len(got) != 1 || len(got[0]) != 1 {
		t.Errorf("%+v", got)
	}
	mix.Parts[1].Models = nil
	if got := answeredBy(r, mix); len(got) != 2 || len(got[1]) != 2 {
		t.Errorf("%+v", got)
	}
}

// A second without a frame is silent if a request was in flight all the time, and only the steady part counts.
func TestSteadySeconds(t *testing.T) {
	rec, requests := fixture.StageRecord(0, 1), fixture.SteadyRequests(1, 80)
	requests = slices.DeleteFunc(requests, func(r fixture.Request) bool { return r.Start/1e9 == 3 || r.Start/1e9 == 4 })
	all := fixture.Recorded(rec, requests, fixture.EndWindow)
	all[len(all)-1].Totals.SteadyFromNs, all[len(all)-1].Totals.SteadyToNs = new(int64(0.5e9)), new(int64(6.5e9))
	all[4].PeakInFlight = 0
	busy := trust.Second{InFlight: 3, Rate: 40}
	want := []trust.Second{busy, busy, {InFlight: 3, Silent: true}, {}, busy}
	for i := range want {
		want[i].Number = int64(i) + 1
	}
	stage := merged(t, rec, all)
	stage.Read(rec, func(m *merge.Sums) {
		if got := (sums{m}).steadySeconds(sums{m}.steady(), false); !slices.Equal(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		if got := (sums{m}).steadySeconds(sums{m}.steady(), true); got[0].Rate != 3 {
			t.Errorf("an open loop: %+v", got)
		}
	})
	if notes := OfStage(stage, rec).Trust.Notes; len(notes) != 1 || !strings.Contains(notes[0], "in 1 of 5 seconds") {
		t.Errorf("%q", notes)
	}
}
