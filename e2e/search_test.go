package e2e

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/e2e/programs"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/simulator/fits"
)

// searchPlan searches for the rate at which the engine of TestSearchFindsTheKnownCapacity starts to fall behind.
// Without chance in arrivals and lengths, its queue grows only above its capacity, by 1 % of a stage's time for each
// percent.
const searchPlan = `
name: knee
seed: 1
targets:
  - {name: engine, simulator: {prefill_tokens_per_second: 50000, decode_step: 2ms, decode_step_per_request: 100us, max_running: 8}}
workloads:
  - random: {isl: 100, osl: 25}
loads:
  - search:
      rate: {from: 60, to: 2000}
      keep: {latencies: [{metric: ttft, percentile: 90, at_most: 50ms}]}
      precision: 0.04
    arrival: constant
    duration: 2s
`

// The search finds the capacity that the engine's own model gives.
func TestSearchFindsTheKnownCapacity(t *testing.T) {
	t.Parallel()
	c := config.FromPlan(&spatev1.SimulatedTarget{
		PrefillTokensPerSecond: 50000, DecodeStep: durationpb.New(2 * time.Millisecond),
		DecodeStepPerRequest: durationpb.New(100 * time.Microsecond), MaxRunning: 8,
	})
	capacity := fits.Capacity(&c, 100, 25)
	r := runToItsEnd(t, searchPlan)
	result := r.Results()
	found := onlySearch(t, result)
	limit := found.Limit()
	if limit.Kept == nil || math.Abs(*limit.Kept/capacity-1) > 0.06 || found.Stages > 30 || !found.Converged {
		t.Errorf("found %v, the engine can do %v", words(found), capacity)
	}
	if limit.Broke == nil || *limit.Broke > *limit.Kept*1.04*(1+1e-9) || !strings.Contains(*limit.Reason, "p90 TTFT") ||
		found.Unit != "rate" {
		t.Errorf("found %v", words(found))
	}
	t.Logf("found %s; the engine can do %v", words(found), capacity)
	mustBeItsStages(t, result, found)
	line := strings.Replace(found.Sentence, "the limits", "the limits (p90 TTFT ≤ 50 ms)", 1)
	if !strings.HasPrefix(found.Sentence, fmt.Sprintf("%v req/s is within the limits in ", *limit.Kept)) || len(found.Points) < 4 {
		t.Errorf("%s, decided by %v", found.Sentence, found.Points)
	}
	for name, text := range map[string]string{"standard output": r.Stdout.String(), "report.md": r.Text("report.md")} {
		if !strings.Contains(html.UnescapeString(text), line) {
			t.Errorf("%s has no %q:\n%s", name, line, text)
		}
	}
}

// runToItsEnd runs a plan with one search. A machine that is too busy for a load twice ends the search early, which
// says nothing about the search: the plan is run again, three times at most.
func runToItsEnd(t *testing.T, plan string) programs.Running {
	t.Helper()
	for try := 1; ; try++ {
		r := programs.RunPlan(t, plan)
		if r.Exit() == 3 && try < 3 && strings.Contains(onlySearch(t, r.Results()).Sentence, "could not be measured twice") {
			t.Logf("try %d: %s", try, onlySearch(t, r.Results()).Sentence)
			continue
		}
		r.MustExit(0)
		return r
	}
}

// mustBeItsStages fails the test unless the stages are those of the search, in order.
func mustBeItsStages(t *testing.T, result results.Result, found results.SeriesResult) {
	t.Helper()
	if len(result.Stages) != int(found.Stages) || result.Run.StagesPlanned != found.Stages || !result.Run.Complete {
		t.Errorf("%d stages of %d, %d probes, run %+v", len(result.Stages), result.Run.StagesPlanned,
			found.Stages, result.Run)
	}
	for i, s := range result.Stages {
		if p := s.Probe; p == nil || p.Series != found.Series || p.Number != uint32(i) || s.Index != uint32(i) ||
			!s.Complete {
			t.Errorf("stage %d: probe %+v, complete %v", s.Index, p, s.Complete)
		}
	}
	if kept := result.Stages[*found.Limit().Stage]; *kept.Load.Rate != *found.Limit().Kept {
		t.Errorf("stage %d has a rate of %v, found %v", kept.Index, *kept.Load.Rate, words(found))
	}
}

func onlySearch(t *testing.T, result results.Result) results.SeriesResult {
	t.Helper()
	if len(result.Run.Series) != 1 {
		t.Fatalf("%d series; run %+v", len(result.Run.Series), result.Run)
	}
	return result.Run.Series[0]
}

// words formats a search with the numbers behind its pointers.
func words(s results.SeriesResult) string {
	number := func(v *float64) string {
		if v == nil {
			return "none"
		}
		return fmt.Sprint(*v)
	}
	return fmt.Sprintf("kept %s, broke %s (%s), %d probes, converged %v, %s ± %s", number(s.Limit().Kept),
		number(s.Limit().Broke), s.Sentence, s.Stages, s.Converged,
		number(s.MeanThroughput), number(s.ThroughputMargin))
}

const endsPlan = `
name: ends
slo: {e2e: 10s}
targets:
  - {name: engine, simulator: {decode_step: 1ms}}
workloads:
  - random: {isl: 20, osl: 3}
loads:
  - search:
      rate: {from: 20, to: 200}
      keep: {latencies: [{metric: e2e, percentile: 50, at_most: 1us}]}
    requests: 20
  - search:
      concurrency: {from: 2, to: 5}
      keep: {goodput: 0.9, error_share: 0}
      repeats: 3
    requests: 60
`

// A search whose objective always fails ends with its first load, and has no answer. A search without a limit ends with
// its upper bound. Probes that a busy machine spoils, and that are repeated, do not count.
func TestSearchesWithoutALimit(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, endsPlan)
	r.MustExit(3)
	result := r.Results()
	if len(result.Run.Series) != 2 || result.Run.Complete || result.Run.Verdict == nil ||
		!slices.ContainsFunc(result.Run.Missing, func(s string) bool {
			return strings.Contains(s, "has no complete answer: no load is within the limits")
		}) {
		t.Fatalf("run %+v", result.Run)
	}
	none, all := result.Run.Series[0], result.Run.Series[1]
	if l := none.Limit(); l.Kept != nil || l.Stage != nil || *l.Broke != 20 || !none.Converged ||
		!strings.Contains(*none.End, "does not go below 20") {
		t.Errorf("nothing is kept: %s", words(none))
	}
	if l := all.Limit(); *l.Kept != 5 || l.Broke != nil || !all.Converged || !strings.Contains(*all.End, "the upper bound") ||
		all.Unit != "concurrency" || all.Series != 1 {
		t.Errorf("all is kept: %s", words(all))
	}
	var purposes []string
	seeds := map[uint64]bool{}
	var throughputs []float64
	for _, s := range result.Stages {
		if s.Probe.Series != all.Series {
			continue
		}
		if s.Probe.Purpose != "again" {
			purposes = append(purposes, fmt.Sprint(s.Probe.Purpose, " ", *s.Load.Concurrency))
			seeds[s.Seed] = true
		}
		if *s.Load.Concurrency == 5 && s.Trust.Verdict != trust.Invalid {
			throughputs = append(throughputs, *s.RequestThroughput)
		}
	}
	want := []string{"bracket 2", "bracket 4", "bracket 5", "confirm 5", "repeat 5"}
	if !slices.Equal(purposes, want) || len(seeds) != 5 || len(throughputs) != 3 {
		t.Errorf("stages %q of %d seeds, %d of them at the load found", purposes, len(seeds), len(throughputs))
	}
	mean := stat.Mean(throughputs, nil)
	if all.MeanThroughput == nil || all.ThroughputMargin == nil {
		t.Fatalf("no throughput of the repeats: %s", words(all))
	}
	programs.Near(t, "mean throughput", *all.MeanThroughput, mean, 1e-9)
	for _, text := range []string{"no load is within the limits", "the upper bound of the search"} {
		if !strings.Contains(r.Stderr.String(), text) {
			t.Errorf("the progress does not say %q", text)
		}
	}
}

// A sweep measures one request at a time and a saturated server, and rates between them.
func TestSweepMeasuresBetweenItsEnds(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, `
name: sweep
targets:
  - {name: engine, simulator: {prefill_tokens_per_second: 20000, decode_step: 2ms, max_running: 16}}
workloads:
  - random: {isl: 100, osl: 10}
loads:
  - {sweep: {points: 3, saturation: 32}, arrival: constant, requests: 120}
`)
	r.MustExit(0)
	result := r.Results()
	if len(result.Stages) != 5 || result.Run.StagesPlanned != 5 || !result.Run.Complete ||
		len(result.Run.Series) != 1 || result.Run.Series[0].Kind != "sweep" {
		t.Fatalf("%d stages, run %+v", len(result.Stages), result.Run)
	}
	// Series decide by the throughput of the steady part, if the stage was long enough to have one.
	low, _ := result.Stages[0].Sustained()
	high, _ := result.Stages[1].Sustained()
	for i, want := range []results.Probe{{Number: 0, Purpose: "synchronous"}, {Number: 1, Purpose: "saturated"},
		{Number: 2, Purpose: "rate"}, {Number: 3, Purpose: "rate"}, {Number: 4, Purpose: "rate"}} {
		s := result.Stages[i]
		if *s.Probe != want || s.Requests.Completed != 120 {
			t.Errorf("stage %d: probe %+v, %+v", i, *s.Probe, s.Requests)
		}
		if i >= 2 {
			programs.Near(t, "rate", *s.Load.Rate, *low+(*high-*low)*float64(i-1)/3, 0.001)
		}
	}
	if one, many := *result.Stages[0].Load.Concurrency, *result.Stages[1].Load.Concurrency; one != 1 || many != 32 {
		t.Errorf("concurrencies %d and %d", one, many)
	}
}

// brokenPlan is a search that would take long.
const brokenPlan = `
name: broken
targets:
  - {name: server, endpoints: [%q], model: m, connect_timeout: 2s}
workloads:
  - random: {isl: 10, osl: 5}
loads:
  - search:
      rate: {from: 20, to: 1000}
      keep: {latencies: [{metric: ttft, percentile: 99, at_most: 10s}], error_share: 0.5}
    duration: 3s
`

// A search that is interrupted is partial: what it found so far is kept, and is not a final result.
func TestInterruptedSearchIsPartial(t *testing.T) {
	t.Parallel()
	server := programs.Simulate(t, 1, "--decode-step", "2ms")
	r := programs.RunPlan(t, fmt.Sprintf(brokenPlan, server.URLs[0]))
	r.Await(`20 req/s was within the limits`)
	server.AwaitAnswers(server.Answers() + 15) // the next stage is in progress
	r.Signal(syscall.SIGINT)
	r.MustExit(4)
	mustBeOpen(t, r, "stopped")
}

// mustBeOpen fails the test unless the run's only search kept its first load and came to no end.
func mustBeOpen(t *testing.T, r programs.Running, outcome string) results.SeriesResult {
	t.Helper()
	result := r.Results()
	found := onlySearch(t, result)
	probes := uint32(1)
	for _, s := range result.Stages {
		if *s.Load.Rate == 20 && s.Trust.Verdict == trust.Invalid { // a busy machine spoiled it, and it was repeated
			probes++
		}
	}
	l := found.Limit()
	if l.Kept == nil || *l.Kept != 20 || found.Converged || l.Broke != nil || found.Stages != probes ||
		found.Reason == nil ||
		!strings.Contains(*found.Reason, "ended early") {
		t.Errorf("search: %s", words(found))
	}
	if result.Run.Complete || *result.Run.Outcome != outcome || len(result.Run.Missing) == 0 {
		t.Errorf("run %+v", result.Run)
	}
	return found
}

// frontierPlan measures an engine with eight places. Each of its requests takes some 70 ms.
const frontierPlan = `
name: frontier
targets:
  - {name: engine, simulator: {prefill_tokens_per_second: 50000, decode_step: 2ms, decode_step_per_request: 100us, max_running: 8}}
workloads:
  - random: {isl: 100, osl: 25}
slo: {e2e: 100ms}
loads:
  - {frontier: {concurrency: {from: 2, to: 128}}, duration: 2s, warmup: {duration: 500ms}}
drain_timeout: 20s
`

// The frontier ends at the capacity that the engine's own model gives, in few stages. Its answers follow from its
// points, and its points are its stages.
func TestFrontierFindsTheKnownCapacity(t *testing.T) {
	t.Parallel()
	c := config.FromPlan(&spatev1.SimulatedTarget{
		PrefillTokensPerSecond: 50000, DecodeStep: durationpb.New(2 * time.Millisecond),
		DecodeStepPerRequest: durationpb.New(100 * time.Microsecond), MaxRunning: 8,
	})
	capacity := fits.Capacity(&c, 100, 25)
	r := programs.RunPlan(t, frontierPlan)
	r.MustExit(0)
	result := r.Results()
	if len(result.Run.Series) != 1 || !result.Run.Complete {
		t.Fatalf("%d series, run %+v", len(result.Run.Series), result.Run)
	}
	f := result.Run.Series[0]
	if f.Knee == nil || f.HighestGoodput == nil || f.End == nil || len(f.Points) > 12 {
		t.Fatalf("%+v", f)
	}
	highest, power, goodput := 0.0, 0.0, 0.0
	var knee, best uint32
	for _, p := range f.Points {
		s := result.Stages[p.Stage]
		if p.LeftOut != nil && strings.HasPrefix(*p.LeftOut, "another stage of this load counts") {
			continue
		}
		if p.LeftOut != nil || float64(*s.Load.Concurrency) != p.Load || math.Abs(*p.LatencyMs/s.E2E.Mean-1) > 1e-6 {
			t.Fatalf("stage %d: %+v", p.Stage, p)
		}
		if v := *p.RequestThroughput / *p.LatencyMs; v > power {
			knee, power = p.Stage, v
		}
		if *p.Goodput > goodput {
			best, goodput = p.Stage, *p.Goodput
		}
		highest = max(highest, *p.RequestThroughput)
		if p.Pareto != pareto(f.Points, p) {
			t.Errorf("concurrency %v: Pareto-optimal %v", p.Load, p.Pareto)
		}
	}
	// A second more or less is a few per cent of a stage.
	if math.Abs(highest/capacity-1) > 0.05 || !strings.HasPrefix(*f.End, "saturated: ") {
		t.Errorf("up to %v req/s, the engine can do %v: %s", highest, capacity, *f.End)
	}
	if knee != *f.Knee || best != *f.HighestGoodput {
		t.Errorf("knee in stage %d, want %d; highest goodput in stage %d, want %d", *f.Knee, knee, *f.HighestGoodput, best)
	}
	for name, text := range map[string]string{"standard output": r.Stdout.String(), "report.md": r.Text("report.md")} {
		if !strings.Contains(text, "frontier of throughput in the steady part of each stage against mean E2E: knee at ") {
			t.Errorf("%s has no conclusion:\n%s", name, text)
		}
	}
	if page := r.Text("report.html"); !strings.Contains(page, "Tokens of a user by tokens of all") || !strings.Contains(page, ", knee") {
		t.Error("report.html has no curve with its knee")
	}
}

// pareto reports whether no other point is better in one respect, and as good in the other.
func pareto(points []results.SeriesPoint, p results.SeriesPoint) bool {
	for _, q := range points {
		more, less := *q.RequestThroughput-*p.RequestThroughput, *p.LatencyMs-*q.LatencyMs
		if more >= 0 && less >= 0 && more+less > 0 {
			return false
		}
	}
	return true
}
