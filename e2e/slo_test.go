package e2e

import (
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/rundir"
)

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
		rundir.Near(t, "goodput share", *g.Share, float64(good)/float64(ended), 1e-12)
		rundir.Near(t, "goodput", *g.RequestThroughput, float64(good) / *stage.DurationS, 1e-9)
	}
}
