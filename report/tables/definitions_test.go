package tables

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/histogram"
)

// naive is a request: its tokens, and when the first and the last one came, in ms since its start.
type naive struct {
	tokens      uint64
	first, last float64
}

// summaryOf summarizes what of returns for each request.
func summaryOf(requests []naive, of func(naive) float64) *histogram.Summary {
	var values []float64
	sum := 0.0
	for _, r := range requests {
		values = append(values, of(r))
		sum += of(r)
	}
	return &histogram.Summary{Mean: sum / float64(len(values)), Min: slices.Min(values), Max: slices.Max(values),
		Count: uint64(len(values))}
}

// The means that GuideLLM and AIPerf calculate request by request, by the formulas in their sources, are those of the
// tables, which know only a stage's distributions.
func TestDefinitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requests := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) naive {
			first := rapid.Float64Range(1, 1000).Draw(t, "first")
			return naive{rapid.Uint64Range(2, 500).Draw(t, "tokens"), first,
				first + rapid.Float64Range(1, 5000).Draw(t, "decode")}
		}), 1, 20).Draw(t, "requests")
		perToken := func(r naive) float64 { return (r.last - r.first) / float64(r.tokens-1) }
		s := &results.StageResult{OutputTokens: new(uint64)}
		s.Requests.Completed = uint64(len(requests))
		s.TTFT = summaryOf(requests, func(r naive) float64 { return r.first })
		s.E2E = summaryOf(requests, func(r naive) float64 { return r.last })
		s.TPOT = summaryOf(requests, perToken)
		var itl, itlWeight, tpot, tpotWeight, slowest float64
		for _, r := range requests {
			*s.OutputTokens += r.tokens
			// time_per_output_token_ms and inter_token_latency_ms, weighted as in GenerativeMetrics.compile.
			itl, itlWeight = itl+perToken(r)*float64(r.tokens-1), itlWeight+float64(r.tokens-1)
			tpot, tpotWeight = tpot+r.last/float64(r.tokens)*float64(r.tokens), tpotWeight+float64(r.tokens)
			slowest = max(slowest, perToken(r))
		}
		users := perUser(s.TPOT)
		for name, c := range map[string]struct {
			got  *float64
			want float64
		}{
			"GuideLLM's ITL":         {weightedITL(s), itl / itlWeight},
			"GuideLLM's TPOT":        {weightedTPOT(s), tpot / tpotWeight},
			"AIPerf's slowest user":  {users[1], 1000 / slowest},
			"AIPerf's mean per user": {users[0], math.NaN()},
		} {
			if c.got == nil && !math.IsNaN(c.want) || c.got != nil && math.Abs(*c.got-c.want) > 1e-9*c.want {
				t.Fatalf("%s: %v, want %v", name, c.got, c.want)
			}
		}
	})
}
