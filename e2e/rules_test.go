package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/e2e/programs"
)

// What was asked to be measured is measured, from one instant on by all agents, however late they hear of it. Requests
// that start before it are sent, and are in no result. Package lifecycle tests in virtual time when that instant is.
func TestWarmupUntilSteady(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, `
name: steady
targets:
  - {name: server, simulator: {decode_step: 2ms}}
workloads:
  - random: {isl: 10, osl: 5}
loads:
  - {rate: [30], arrival: constant, duration: 2s, warmup: {until_steady: 1500ms}}
  - {concurrency: [3], requests: 60, warmup: {until_steady: 1500ms}}
`, "--agents", "3")
	r.MustExit(0)
	result, rows := r.Results(), r.Rows()
	for i, stage := range result.Stages {
		if stage.MeasuredFromS == nil {
			t.Fatalf("stage %d: it is not known from when on it was measured", i)
		}
		from := int64(*stage.MeasuredFromS*1e9 + 0.5)
		unmeasured := uint64(0)
		for _, q := range rows[stage.Index] {
			// In a closed loop an arrival is taken slightly after it was scheduled.
			if q.Unmeasured && q.ScheduledNs >= from || !q.Unmeasured && q.StartNs < from || i == 0 &&
				q.Unmeasured != (q.ScheduledNs < from) {
				t.Errorf("stage %d: request %d of %d ns is unmeasured: %v, and measuring began at %d", i, q.Index,
					q.ScheduledNs, q.Unmeasured, from)
			}
			if q.Unmeasured {
				unmeasured++
			}
		}
		if q := stage.Requests; !stage.Complete || q.Unmeasured != unmeasured || unmeasured == 0 || q.Started != 60 ||
			q.Completed != 60 {
			t.Errorf("stage %d: complete %v, %+v, %d rows are unmeasured", i, stage.Complete, q, unmeasured)
		}
	}
}

const edgesPlan = `
name: edges
pause: 1200ms
targets:
  - {name: server, simulator: {decode_step: 2ms}}
workloads:
  - random: {isl: 10, osl: 5}
loads:
  - {rate: [50], arrival: constant, requests: 40, warmup: {requests: 10}, cooldown: 500ms}
  - {concurrency: [4], requests: 40, warmup: {requests: 10}, cooldown: 400ms}
  - {rate: [40], duration: 700ms, warmup: {duration: 300ms}, cooldown: 300ms}
`

// Exactly the requested warm-up and cool-down requests surround the measured ones. Nothing is sent in the pauses
// between stages.
func TestWarmupCooldownAndPause(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, edgesPlan, "--agents", "3")
	r.MustExit(0)
	result, rows := r.Results(), r.Rows()
	var ended time.Time
	for i, stage := range result.Stages {
		first, last, end := int64(-1), int64(-1), int64(0)
		before, after := uint64(0), uint64(0)
		for _, q := range rows[stage.Index] {
			end = max(end, q.EndNs)
			switch {
			case !q.Unmeasured && first < 0:
				first, last = int64(q.Index), int64(q.Index)
			case !q.Unmeasured:
				last = int64(q.Index)
			case first < 0:
				before++
			default:
				after++
			}
		}
		measured := uint64(len(rows[stage.Index])) - before - after
		if q := stage.Requests; q.Started != measured || q.Unmeasured != before+after ||
			uint64(last-first+1) != measured || before == 0 || after == 0 {
			t.Errorf("stage %d: %+v; %d rows before, %d after, %d measured from index %d to %d", i, q, before, after,
				measured, first, last)
		}
		// Of a constant 50 req/s, 24 are within the 500 ms after the last measured one, and the 25th is due at their
		// end.
		if i < 2 && (before != 10 || measured != 40) || i == 0 && after != 24 {
			t.Errorf("stage %d: %d before, %d measured, %d after", i, before, measured, after)
		}
		start := startOf(t, stage)
		if i > 0 && start.Sub(ended) < 1200*time.Millisecond {
			t.Errorf("stage %d began %v after the end of the one before", i, start.Sub(ended))
		}
		ended = start.Add(time.Duration(end))
	}
}

func startOf(t *testing.T, stage results.StageResult) time.Time {
	t.Helper()
	start, err := time.Parse(time.RFC3339Nano, *stage.StartTime)
	if err != nil {
		t.Fatal(err)
	}
	return start
}

// A stage that breaks an abort rule is aborted and marked, and the next one runs.
func TestAbortGivesAStageUp(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, `
name: abort
targets:
  - {name: server, simulator: {decode_step: 2ms, error_share: 0.5}}
workloads:
  - random: {isl: 10, osl: 5}
loads:
  - {concurrency: [2], think_time: {mean: 20ms}, duration: 50s, abort: {error_share: 0.2, after_requests: 30}}
  - {rate: [20], duration: 51s, abort: {duration: 1500ms}}
  - {concurrency: [3], requests: 40, abort: {error_share: 0.9, duration: 50s}}
`)
	r.MustExit(3)
	result := r.Results()
	if len(result.Stages) != 3 || result.Run.Complete || *result.Run.Outcome != "failed" ||
		!strings.Contains(*result.Run.Reason, "aborted: ") {
		t.Fatalf("%d stages, run %+v", len(result.Stages), result.Run)
	}
	for i, want := range []string{"requests failed", "took longer than 1.5s"} {
		stage := result.Stages[i]
		if missing := strings.Join(stage.Missing, "; "); stage.Complete || stage.Enough != nil ||
			!strings.Contains(missing, "aborted: ") || !strings.Contains(missing, want) {
			t.Errorf("stage %d: complete %v, missing %q", i, stage.Complete, missing)
		}
		if q := stage.Requests; q.Started == 0 || q.Started != uint64(len(r.Rows()[stage.Index])) ||
			q.Started != q.Completed+q.Failed+q.Cancelled {
			t.Errorf("stage %d: %+v", i, q)
		}
		if !strings.Contains(r.Text("report.md"), want) || !strings.Contains(r.Stderr.String(), want) {
			t.Errorf("nothing says why stage %d was aborted", i)
		}
	}
	if q := result.Stages[0].Requests; q.Completed+q.Failed < 30 {
		t.Errorf("aborted after %+v", q)
	}
	if last := result.Stages[2]; !last.Complete || last.Requests.Started != 40 {
		t.Errorf("the stage after the aborted ones: complete %v, %+v", last.Complete, last.Requests)
	}
}

// A stage that knows its percentile well enough ends early, and nothing is missing from it.
func TestUntilEndsAStageThatHasMeasuredEnough(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, `
name: enough
targets:
  - {name: server, simulator: {decode_step: 2ms}}
workloads:
  - random: {isl: 10, osl: 5}
loads:
  - {rate: [60], duration: 50s, until: {metric: e2e, percentile: 50, within: 0.2}}
  - {concurrency: [2], requests: 100, until: {metric: ttft_scheduled, percentile: 99, within: 0.000001}}
`)
	r.MustExit(0)
	result := r.Results()
	early, whole := result.Stages[0], result.Stages[1]
	if early.Enough == nil || !strings.Contains(*early.Enough, "p50 E2E") || !early.Complete || *early.DurationS > 40 ||
		!result.Run.Complete {
		t.Fatalf("enough %v, complete %v, %v s, run %+v", early.Enough, early.Complete, *early.DurationS, result.Run)
	}
	if q := early.Requests; q.Started == 0 || q.Started != q.Completed || q.Cancelled != 0 ||
		q.Started != uint64(len(r.Rows()[0])) {
		t.Errorf("%+v", q)
	}
	if whole.Enough != nil || whole.Requests.Completed != 100 {
		t.Errorf("a percentile that is not known well enough: %v, %+v", whole.Enough, whole.Requests)
	}
	if !strings.Contains(r.Text("report.md"), fmt.Sprint(*early.Enough)) {
		t.Errorf("report.md does not say %q", *early.Enough)
	}
}

const sloPlan = `
name: slo
seed: 2
slo: {ttft: 22ms, tpot: 2300us, e2e: 60ms}
targets:
  - name: near its limit
    simulator: {prefill_tokens_per_second: 20000, decode_step: 2ms, decode_step_per_request: 100us, error_share: 0.1}
workloads:
  - random: {isl: 200, osl_lengths: {empirical: {values: [1, 5, 30]}}}
loads:
  - {rate: [65], requests: 250, warmup: {requests: 10}}
  - {concurrency: [3], requests: 100}
`

// A request is good if it met all of the SLO, computed again from the rows. A single token has no TPOT and meets that
// part.
func TestGoodputIsThatOfTheRequests(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, sloPlan, "--agents", "2")
	r.MustExit(0)
	rows := r.Rows()
	for _, stage := range r.Results().Stages {
		var good, ended, single uint64
		for _, q := range rows[stage.Index] {
			if q.Unmeasured || q.Cancelled {
				continue
			}
			ended++
			if !q.Completed() {
				continue
			}
			ttft, e2e := *q.FirstTokenNs-q.StartNs, *q.LastTokenNs-q.StartNs
			n := int64(*q.OutputTokens)
			if n == 1 {
				single++
			}
			if ttft <= 22e6 && e2e <= 60e6 && (n < 2 || divide(e2e-ttft, n-1) <= 2300e3) {
				good++
			}
		}
		g := stage.Goodput
		if g == nil || g.Requests != good || good == 0 || good == ended || single == 0 || stage.Requests.Failed == 0 {
			t.Fatalf("stage %d: %+v; %d of %d rows are good, %d of one token, %d failed", stage.Index, g, good, ended,
				single, stage.Requests.Failed)
		}
		if *g.TTFTMs != 22 || *g.TPOTMs != 2.3 || *g.E2EMs != 60 {
			t.Errorf("stage %d: SLO of %v, %v and %v ms", stage.Index, *g.TTFTMs, *g.TPOTMs, *g.E2EMs)
		}
		programs.Near(t, "goodput share", *g.Share, float64(good)/float64(ended), 1e-12)
		programs.Near(t, "goodput", *g.RequestThroughput, float64(good) / *stage.DurationS, 1e-9)
	}
}
