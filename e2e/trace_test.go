package e2e

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/spate-load/spate/e2e/programs"
)

// tracePlan replays the trace that ships with Spate against one simulated engine, whose prefix cache has room for all
// of the trace's blocks.
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
  - replay: {speed: 40}
`

// traceRow is a row of a trace in Mooncake's form.
type traceRow struct {
	Timestamp    int64    `json:"timestamp"` // in milliseconds
	InputLength  uint64   `json:"input_length"`
	OutputLength uint64   `json:"output_length"`
	HashIDs      []uint64 `json:"hash_ids"`
}

// shippedTrace reads the trace, as a person would.
func shippedTrace(t *testing.T) (rows []traceRow) {
	t.Helper()
	programs.EachLine(t, filepath.Join("..", "plans", "data", "mooncake-1000.jsonl"),
		func(r traceRow) { rows = append(rows, r) })
	return rows
}

// A replay sends the rows of a trace at their times. Equal hash IDs make equal prefixes: an engine's cache finds
// exactly the blocks of earlier requests.
func TestReplayHasTheTimesLengthsAndPrefixesOfItsTrace(t *testing.T) {
	t.Parallel()
	const speed, block = 40, 512
	trace := shippedTrace(t)
	r := programs.RunPlan(t, tracePlan)
	r.MustExit(0)
	stage, rows := r.Results().Stages[0], r.Rows()[0]
	if stage.Requests.Completed != 1000 || stage.ISL.Missed > 0 || stage.OSL.Missed > 0 || len(rows) != len(trace) ||
		stage.Dataset.Rows != 1000 {
		t.Fatalf("%+v; %d prompts and %d outputs missed their length; %d rows", stage.Requests, stage.ISL.Missed,
			stage.OSL.Missed, len(rows))
	}
	seen := map[uint64]bool{}
	var input, shared, cached, apart uint64
	for i, q := range rows {
		want := trace[i]
		wanted := time.Duration(want.Timestamp-trace[0].Timestamp) * time.Millisecond / speed
		if q.Index != uint64(i) || q.ScheduledNs != int64(wanted) || *q.InputTokens != want.InputLength ||
			*q.OutputTokens != want.OutputLength {
			t.Fatalf("row %d: index %d at %d ns, %d:%d tokens; the trace has %v, %d:%d", i, q.Index, q.ScheduledNs,
				*q.InputTokens, *q.OutputTokens,
				wanted, want.InputLength, want.OutputLength)
		}
		if had := knownPrefix(seen, want, block); q.SharedTokens != had {
			t.Fatalf("row %d shares %d tokens with rows before it, the trace says %d", i, q.SharedTokens, had)
		}
		if *q.CachedTokens > *q.InputTokens {
			t.Fatalf("row %d: %d tokens cached of %d", i, *q.CachedTokens, *q.InputTokens)
		}
		if *q.CachedTokens != q.SharedTokens {
			// The request with the same blocks was still in flight, or later rows overtook it, or all of its prompt was
			// in the cache.
			apart++
		}
		input, shared, cached = input+*q.InputTokens, shared+q.SharedTokens, cached+*q.CachedTokens
	}
	t.Logf("%d of %d requests found other blocks in the cache than the trace says; %d tokens shared, %d cached of %d",
		apart, len(rows), shared, cached, input)
	if apart*4 > uint64(len(rows)) ||
		shared*10 < input { // a busy machine sends some late, and so in another order
		t.Errorf("%d of %d requests found other blocks in the cache than the trace says; %d tokens shared of %d", apart,
			len(rows), shared, input)
	}
	programs.Near(t, "shared share", *stage.PrefixCache.SharedShare, float64(shared)/float64(input), 1e-9)
	programs.Near(t, "cached share", *stage.PrefixCache.CachedShare, float64(cached)/float64(input), 1e-9)
}

// knownPrefix returns how many tokens in whole blocks at the start of a row were in earlier rows, and adds the row's
// blocks. A hash ID stands for its block and all blocks before it.
func knownPrefix(seen map[uint64]bool, r traceRow, block uint64) (tokens uint64) {
	known := true
	for i, id := range r.HashIDs {
		if whole := uint64(i+1)*block <= r.InputLength; whole {
			if known = known && seen[id]; known {
				tokens += block
			}
			seen[id] = true
		}
	}
	return tokens
}
