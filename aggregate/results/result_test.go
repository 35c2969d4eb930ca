package results

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// anyRequests draws requests of a number of agents, a few of which fail.
func anyRequests(t *rapid.T, agents int) []fixture.Request {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) fixture.Request {
		scheduled := rapid.Int64Range(0, 20e9).Draw(t, "scheduled")
		r := fixture.Request{
			Agent:     rapid.IntRange(0, agents-1).Draw(t, "agent"),
			Endpoint:  rapid.IntRange(0, 1).Draw(t, "endpoint"),
			Scheduled: scheduled,
			Start:     scheduled + rapid.Int64Range(0, 1e9).Draw(t, "delay"),
		}
		if rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
			r.Class = spatev1.ErrorClass(rapid.IntRange(1, 8).Draw(t, "class"))
			if r.Class == spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS {
				r.Status = rapid.SampledFrom([]uint32{429, 500}).Draw(t, "status")
			}
			return r
		}
		r.FirstFrame = r.Start + rapid.Int64Range(1000, 5e9).Draw(t, "first frame")
		at := r.FirstFrame + rapid.SampledFrom([]int64{0, 3e6}).Draw(t, "role frame")
		for range rapid.IntRange(1, 12).Draw(t, "tokens") {
			r.Tokens = append(r.Tokens, at)
			at += rapid.Int64Range(0, 100e6).Draw(t, "gap")
		}
		return r
	}), 1, 60).Draw(t, "requests")
}

// rawValues returns the values of a metric from the requests themselves, sorted.
func rawValues(requests []fixture.Request, m spatev1.Metric) (values []int64) {
	for _, r := range requests {
		if r.Class == 0 {
			values = append(values, r.Metrics()[m]...)
		}
	}
	slices.Sort(values)
	return values
}

// checkAgainstRaw compares a distribution with sorted raw values. Percentiles must be within 0.1 % (or the histogram's
// 512 ns), and all other numbers must be exact.
func checkAgainstRaw(t *rapid.T, name string, d *histogram.Summary, raw []int64, scale float64) {
	if len(raw) == 0 {
		if d != nil {
			t.Fatalf("%s of no values is %+v", name, d)
		}
		return
	}
	sum := 0.0
	for _, v := range raw {
		sum += float64(v)
	}
	mean := sum / float64(len(raw)) / scale
	if d.Count != uint64(len(raw)) || d.Min != float64(raw[0])/scale || d.Max != float64(raw[len(raw)-1])/scale {
		t.Fatalf("%s: %+v of %d values from %d to %d", name, d, len(raw), raw[0], raw[len(raw)-1])
	}
	if math.Abs(d.Mean-mean) > 1e-12*mean {
		t.Fatalf("%s: mean %v, want %v", name, d.Mean, mean)
	}
	for p, got := range map[float64]float64{50: d.P50, 90: d.P90, 95: d.P95, 99: d.P99, 99.9: d.P99_9} {
		want := float64(raw[max(int(math.Ceil(p/100*float64(len(raw))))-1, 0)]) / scale
		if slack := max(want*1e-3, 512/scale); got < want-slack || got > want+slack {
			t.Fatalf("%s: p%v is %v, want %v", name, p, got, want)
		}
	}
}

func TestResultAgreesWithTheRawRequests(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		agents := rapid.IntRange(1, 4).Draw(rt, "agents")
		rec := fixture.StageRecord(0, agents)
		requests := anyRequests(rt, agents)
		r := OfStage(merged(t, rec, fixture.Recorded(rec, requests, fixture.EndWindow)), rec)
		for m, d := range map[spatev1.Metric]*histogram.Summary{
			spatev1.Metric_METRIC_TTFT:           r.TTFT,
			spatev1.Metric_METRIC_TTFT_SCHEDULED: r.TTFTScheduled,
			spatev1.Metric_METRIC_E2E:            r.E2E,
			spatev1.Metric_METRIC_E2E_SCHEDULED:  r.E2EScheduled,
			spatev1.Metric_METRIC_TPOT:           r.TPOT,
			spatev1.Metric_METRIC_ITL:            r.ITL,
			spatev1.Metric_METRIC_SEND_DELAY:     r.SendDelay,
		} {
			checkAgainstRaw(rt, measure.Of(m).Name, d, rawValues(requests, m), 1e6)
		}
		checkAgainstRaw(rt, "osl", r.OSL.Seen, rawValues(requests, spatev1.Metric_METRIC_OSL), 1)
		gaps := append(rawValues(requests, spatev1.Metric_METRIC_ITL),
			rawValues(requests, spatev1.Metric_METRIC_VLLM_ITL_ADDED)...)
		slices.Sort(gaps)
		checkVLLM(rt, "ITL", r.VLLM.ITL, gaps)
		checkVLLM(rt, "TTFT", r.VLLM.TTFT, rawValues(requests, spatev1.Metric_METRIC_VLLM_TTFT))
		checkVLLM(rt, "TPOT", r.VLLM.TPOT, rawValues(requests, spatev1.Metric_METRIC_VLLM_TPOT))
		checkPartsAddUp(rt, r)
		if !r.Complete {
			rt.Fatalf("not complete: %v", r.Missing)
		}
	})
}

// checkPartsAddUp checks that each breakdown adds up to the whole.
func checkPartsAddUp(t *rapid.T, r StageResult) {
	var endpoints, agents, regions []Breakdown
	for _, p := range r.Endpoints {
		endpoints = append(endpoints, p.Breakdown)
	}
	for _, p := range r.Agents {
		agents = append(agents, p.Breakdown)
	}
	for _, p := range r.Regions {
		b := Breakdown{Requests: p.Requests, OutputTokens: p.OutputTokens, Errors: p.Errors}
		if p.TTFT != nil {
			b.TTFT = &histogram.ShortSummary{Count: p.TTFT.Count}
		}
		regions = append(regions, b)
	}
	want := r.Requests.Outcomes
	for name, parts := range map[string][]Breakdown{"endpoints": endpoints, "agents": agents, "regions": regions} {
		var requests Outcomes
		var tokens, ttfts, errors uint64
		for _, p := range parts {
			requests.Started += p.Requests.Started
			requests.Completed += p.Requests.Completed
			requests.Failed += p.Requests.Failed
			requests.Cancelled += p.Requests.Cancelled
			tokens += *p.OutputTokens
			if p.TTFT != nil {
				ttfts += p.TTFT.Count
			}
			for _, n := range p.Errors {
				errors += n
			}
		}
		if requests != want || tokens != *r.OutputTokens || ttfts != r.Requests.Completed ||
			errors != r.Requests.Failed {
			t.Fatalf("%s: %+v, %d tokens, %d TTFTs, %d errors; stage: %+v", name, requests, tokens, ttfts,
				errors, r.Requests)
		}
	}
}

// The result is the same byte for byte, no matter in which order snapshots arrive. How requests are spread over windows
// affects only numbers about windows.
func TestResultDoesNotDependOnOrderOrWindows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		agents := rapid.IntRange(1, 4).Draw(rt, "agents")
		rec := fixture.StageRecord(0, agents)
		requests := anyRequests(rt, agents)
		snapshots := fixture.Recorded(rec, requests, fixture.EndWindow)
		want := resultJSON(t, merged(t, rec, snapshots), rec)
		shuffled := rapid.Permutation(snapshots).Draw(rt, "order")
		if got := resultJSON(t, merged(t, rec, shuffled), rec); got != want {
			rt.Fatalf("another order gives another result:\n%s", cmp.Diff(want, got))
		}
		late := func(r fixture.Request) uint32 { return fixture.EndWindow(r) / 2 }
		other := OfStage(merged(t, rec, fixture.Recorded(rec, requests, late)), rec)
		first := OfStage(merged(t, rec, snapshots), rec)
		other.PeakOutputTokenThroughput, first.PeakOutputTokenThroughput = nil, nil // about windows by definition
		for _, r := range []*StageResult{&other, &first} {
			r.VLLM.PeakOutputTokenThroughput, r.VLLM.PeakConcurrentRequests = nil, nil
			r.Trust.Checks = slices.DeleteFunc(r.Trust.Checks, func(c trust.Check) bool {
				return c.Name == "peak"
			})
		}
		if diff := cmp.Diff(first, other); diff != "" {
			rt.Fatalf("other windows give another result:\n%s", diff)
		}
	})
}

// resultJSON returns a stage's result as JSON.
func resultJSON(t testing.TB, s *merge.Stage, rec *spatev1.StageRecord) string {
	t.Helper()
	data, err := json.MarshalIndent(OfStage(s, rec), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// For each request, E2E = TTFT + TPOT x (n - 1). If every request has n tokens, this holds for the means too.
func TestMeansAreConsistent(t *testing.T) {
	rec := fixture.StageRecord(0, 2)
	r := OfStage(merged(t, rec, fixture.Recorded(rec, fixture.SteadyRequests(2, 50), fixture.EndWindow)), rec)
	if got := r.TTFT.Mean + r.TPOT.Mean*3; math.Abs(got-r.E2E.Mean) > 3e-6 { // TPOT is rounded to the nanosecond
		t.Errorf("mean TTFT + 3 mean TPOT = %v, mean E2E = %v", got, r.E2E.Mean)
	}
}

// checkVLLM compares count and median of a metric by vLLM's definitions with those of the sorted raw values, calculated
// as numpy does.
func checkVLLM(t *rapid.T, name string, got *VLLMMetric, values []int64) {
	if len(values) == 0 {
		if got != nil {
			t.Fatalf("vLLM's %s of no values: %+v", name, got)
		}
		return
	}
	at := 0.5 * float64(len(values)-1)
	median := (float64(values[int(math.Floor(at))]) + float64(values[int(math.Ceil(at))])) / 2 / nanosPerMs
	if got == nil || got.Count != uint64(len(values)) || math.Abs(got.Median-median) > 0.001*median+0.001 {
		t.Fatalf("vLLM's %s: %+v, want the median of %d values %v", name, got, len(values), median)
	}
}

func TestThroughput(t *testing.T) {
	rec := fixture.StageRecord(0, 2)
	snapshots := fixture.Recorded(rec, fixture.SteadyRequests(2, 50), fixture.EndWindow)
	for _, s := range snapshots {
		if s.GetTotals() != nil {
			s.Totals.SteadyFromNs, s.Totals.SteadyToNs = new(int64(0.2e9)), new(int64(4.2e9))
			s.Totals.NeverSent, s.Totals.UnsentAfterFailure = 2, 1
		}
	}
	r := OfStage(merged(t, rec, snapshots), rec)
	duration := 4.9 + 0.001 + 0.060 // the last start, which is the second agent's, and its response
	for name, c := range map[string]struct{ got, want *float64 }{
		"duration":      {r.DurationS, &duration},
		"requests":      {r.RequestThroughput, new(100 / duration)},
		"output tokens": {r.OutputTokenThroughput, new(400 / duration)},
		"total tokens":  {r.TotalTokenThroughput, new(10400 / duration)},
		"peak":          {r.PeakOutputTokenThroughput, new(80.0)},
	} {
		if c.got == nil || math.Abs(*c.got-*c.want) > 1e-9**c.want {
			t.Errorf("%s: %v, want %v", name, c.got, *c.want)
		}
	}
	rec.Stage.Target.Api = "embeddings" // whose answers have no tokens
	if got := OfStage(merged(t, rec, snapshots), rec).TotalTokenThroughput; got == nil ||
		math.Abs(*got-10000/duration) > 1e-6 {
		t.Errorf("prompt tokens: %v, want %v", got, 10000/duration)
	}
	want := &Steady{FromS: 1, ToS: 4, DurationS: 3, RequestThroughput: 20, OutputTokenThroughput: new(80.0)}
	if diff := cmp.Diff(want, r.Steady); diff != "" {
		t.Errorf("steady:\n%s", diff)
	}
	if diff := cmp.Diff(&PeakConcurrency{Requests: 6}, r.PeakConcurrency); diff != "" {
		t.Errorf("peak concurrency:\n%s", diff)
	}
	if *r.Requests.NeverSent != 4 || *r.Requests.AfterFailure != 2 || *r.Requests.Planned != 100 {
		t.Errorf("requests %+v", r.Requests)
	}
	if *r.Agents[0].StartErrorMs != 0.25 || *r.Agents[0].ClockUncertaintyMs != 0.1 {
		t.Errorf("agent %+v", r.Agents[0])
	}
}

func TestSteadyNeedsAWholeWindowOfEveryAgentWithLoad(t *testing.T) {
	for name, c := range map[string]struct {
		change func(first, second *spatev1.Totals)
		want   bool
	}{
		"both steady":        {func(_, _ *spatev1.Totals) {}, true},
		"one never steady":   {func(_, second *spatev1.Totals) { second.SteadyFromNs = nil }, false},
		"one without an end": {func(_, second *spatev1.Totals) { second.SteadyToNs = nil }, false},
		"less than a window": {func(_, second *spatev1.Totals) { second.SteadyFromNs = new(int64(3.1e9)) },
			false},
		"one without any requests": {func(_, second *spatev1.Totals) { proto.Reset(second) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			rec := fixture.StageRecord(0, 2)
			snapshots := fixture.Recorded(rec, fixture.SteadyRequests(2, 50), fixture.EndWindow)
			var totals []*spatev1.Totals
			for _, s := range snapshots {
				if s.GetTotals() != nil {
					s.Totals.SteadyFromNs, s.Totals.SteadyToNs = new(int64(1e9)), new(int64(4e9))
					totals = append(totals, s.GetTotals())
				}
			}
			c.change(totals[0], totals[1])
			stage := merge.NewStage(rec)
			for _, s := range snapshots {
				if err := stage.Add(s); err != nil {
					t.Fatal(err)
				}
			}
			if got := OfStage(stage, rec).Steady; (got != nil) != c.want {
				t.Errorf("steady %+v", got)
			}
		})
	}
}

func TestWhatIsNotKnownIsNull(t *testing.T) {
	rec := fixture.StageRecord(0, 2)
	rec.Stage.Load = fixture.Timed(time.Minute)
	rec.Stage.Workload = &spatev1.Workload{Name: "trace"}
	r := OfStage(merge.NewStage(rec), rec)
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"duration_s", "request_throughput", "output_token_throughput", "total_token_throughput",
		"peak_output_token_throughput",
		"peak_concurrency", "steady", "output_tokens_counted", "ttft_ms", "tpot_ms", "itl_ms", "e2e_ms", "start_gap_ms",
	} {
		if v, there := fields[name]; !there || v != nil {
			t.Errorf("%s is %v, there: %v", name, v, there)
		}
	}
	if r.Requests.Planned != nil || r.Requests.NeverSent != nil || r.ISL.Asked != nil || r.ISL.MissedShare != nil {
		t.Errorf("requests %+v, ISL %+v", r.Requests, r.ISL)
	}
	if r.Agents[0].StartErrorMs != nil || r.Agents[0].NeverSent != nil {
		t.Errorf("agent %+v", r.Agents[0])
	}
}

func TestTokensWithoutUsage(t *testing.T) {
	for _, c := range []struct {
		without uint64
		counted string
		known   bool
	}{{0, "usage", true}, {3, "mixed", false}, {10, "frames", false}} {
		rec := fixture.StageRecord(0, 1)
		s := fixture.SnapshotOf(0, "a", 1, 1)
		s.Series = []*spatev1.Series{{Counters: &spatev1.Counters{Completed: 10, InputTokens: 700,
			WithoutUsage: c.without}}}
		r := OfStage(merged(t, rec, []*spatev1.Snapshot{s}), rec)
		if *r.OutputTokensCounted != c.counted || (r.InputTokens != nil) != c.known {
			t.Errorf("%d without usage: counted by %s, input tokens %v", c.without, *r.OutputTokensCounted,
				r.InputTokens)
		}
	}
}

func TestPasswordsInEndpointsAreHidden(t *testing.T) {
	rec := fixture.StageRecord(0, 1)
	r := OfStage(merge.NewStage(rec), rec)
	if r.Endpoints[0].URL != "http://one" || r.Endpoints[1].URL != "http://me:xxxxx@two" {
		t.Errorf("endpoints %v", r.Endpoints)
	}
}

func TestErrorExampleIsTheEarliest(t *testing.T) {
	rec := fixture.StageRecord(0, 2)
	of := func(agent string, sequence uint64, example string) *spatev1.Snapshot {
		s := fixture.SnapshotOf(0, agent, 1, sequence)
		s.Series = []*spatev1.Series{{
			Counters: &spatev1.Counters{Failed: 1},
			Errors: []*spatev1.ErrorCount{{
				Class: spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS, HttpStatus: 429, Count: 1, Example: example,
			}},
		}}
		return s
	}
	snapshots := []*spatev1.Snapshot{of("b", 2, "slow down"), of("a", 3, "later"), of("b", 1, ""), of("a", 2, "stop")}
	for range 2 {
		r := OfStage(merged(t, rec, snapshots), rec)
		if r.Errors["http_429"] != 4 || r.ErrorExamples["http_429"] != "stop" {
			t.Errorf("errors %v, examples %v", r.Errors, r.ErrorExamples)
		}
		slices.Reverse(snapshots)
	}
}

func TestResultOfALedger(t *testing.T) {
	l, err := ledger.Create(filepath.Join(t.TempDir(), "ledger.db"), ledger.Change{Run: fixture.RunRecord(2)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for i, requests := range [][]fixture.Request{fixture.SteadyRequests(2, 20), fixture.SteadyRequests(2, 30)} {
		rec := fixture.StageRecord(uint32(i), 2)
		rec.GetAgents()[0].GetAgent().Labels = map[string]string{"pool": "big"}
		if err := l.Put(ledger.Change{Stages: []*spatev1.StageRecord{rec}}); err != nil {
			t.Fatal(err)
		}
		snapshots := fixture.Recorded(rec, requests, fixture.EndWindow)
		for _, s := range snapshots {
			s.Key.Sequence += uint64(i) * 100
		}
		if _, err := l.Append(snapshots); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Of(l)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Run.Complete || len(r.Stages) != 2 || r.Stages[1].Requests.Completed != 60 {
		t.Errorf("run %+v, stages %d", r.Run, len(r.Stages))
	}
	if *r.Run.Plan != "sweep" || *r.Run.Seed != 7 || *r.Run.Outcome != "done" ||
		*r.Run.BeginTime != "2023-11-14T22:13:20.5Z" {
		t.Errorf("run %+v", r.Run)
	}
	want := []RunAgent{
		{Name: "a", Region: "east", Version: "v1", Cores: new(uint32(2)), Labels: map[string]string{"pool": "big"}},
		{Name: "b", Region: "west", Version: "v1", Cores: new(uint32(2)), Labels: map[string]string{}},
	}
	if diff := cmp.Diff(want, r.Run.Agents); diff != "" {
		t.Error(diff)
	}
}

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
