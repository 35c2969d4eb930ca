package e2e

import (
	"slices"
	"testing"
)

// tracePlan replays the trace that ships with Spate at one simulated engine, whose prefix cache has the trace's blocks.
const tracePlan = `
name: trace
seed: 3
targets:
  - name: simulated
    api: completions
    simulator: {prefill_tokens_per_second: 4000000, decode_step: 500us, decode_step_per_request: 5us, cache_block_tokens: 512, cache_blocks: 200000}
workloads:
  - mooncake: {path: "shipped:mooncake-1000.jsonl"}
loads:
  - replay: {speed: 100}
`

// Equal hash ids make equal beginnings: the cache of an engine finds exactly the blocks that earlier requests had.
func TestTraceHasThePrefixesOfItsHashIds(t *testing.T) {
	t.Parallel()
	r := runPlan(t, tracePlan)
	r.mustExit(0)
	stage := r.results().Stages[0]
	if stage.Requests.Completed != 1000 || stage.ISL.Missed > 0 || stage.OSL.Missed > 0 {
		t.Errorf("%+v; %d prompts and %d outputs missed their length", stage.Requests, stage.ISL.Missed, stage.OSL.Missed)
	}
	if p := stage.PrefixCache; p.SharedShare == nil || p.CachedShare == nil || *p.SharedShare < 0.1 {
		t.Fatalf("shares of shared and cached tokens: %v, %v", p.SharedShare, p.CachedShare)
	}
	rows := r.rows()[0]
	slices.SortFunc(rows, func(a, b row) int { return int(a.StartNs - b.StartNs) })
	late := 0
	for _, q := range rows {
		switch cached, possible := *q.CachedTokens, q.SharedTokens/512*512; {
		case cached > possible && cached >= q.ISLAsked:
			t.Fatalf("request %d: %d tokens cached of %d", q.Index, cached, q.ISLAsked)
		case cached != possible:
			late++ // It came before the request whose blocks it shares was through, or after a later one, or all of it was cached.
		}
	}
	if share := float64(late) / float64(len(rows)); share > 0.05 {
		t.Errorf("%d of %d requests found other blocks in the cache than the trace says", late, len(rows))
	}
}
