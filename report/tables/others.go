package tables

import (
	"slices"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
)

// VLLM returns a table with a row for each stage: the columns of vLLM's "Serving Benchmark Result", by its definitions,
// as published comparisons put them side by side.
func VLLM(r *results.Result) *table.Table {
	columns := ColumnsOf("vllm")
	t := &table.Table{Columns: slices.Concat(stageColumns("Load", "Backend/Setting"), columns)}
	t.Rows = lists.Each(slices.Concat(sameLoads(r)...), func(s *results.StageResult) table.Row {
		return marked(t.Columns, s, newRow(s, s.Workload, cellsOf(s, columns)...), "")
	})
	return explained(t)
}

// GuideLLM returns a table with a row for each stage: the columns of GuideLLM's console tables, by the definitions of
// GuideLLM 0.8 (guidellm/schemas/base/request_stats.py and guidellm/benchmark/schemas/metrics.py). GuideLLM takes the
// times of frames with text, weights its ITL and TPOT by tokens, and counts failed requests in throughputs. Where that
// needs a distribution that results.json does not have, the number is not known.
func GuideLLM(r *results.Result) *table.Table {
	t := &table.Table{Columns: slices.Concat(stageColumns("Strategy", ""), ColumnsOf("guidellm"))}
	for s := range lists.Refs(r.Stages) {
		values := slices.Concat(guideTokenValues(s), guideLatencyValues(s), guideThroughputValues(s))
		t.Rows = append(t.Rows, marked(t.Columns, s, newRow(s, s.Target+", "+s.Workload, lists.Each(values, number)...), ""))
	}
	return explained(t)
}

// guideTokenValues returns the numbers of tokens, in the order of columns.txt.
func guideTokenValues(s *results.StageResult) []*float64 {
	isl, osl := s.ISL.Seen, s.OSL.Seen
	var each *float64
	if d := s.TokensPerFrame; constant(d) {
		each = &d.Mean
	}
	return []*float64{median(isl), p95(isl), median(osl), p95(osl), sumOf(isl, osl, median), sumOf(isl, osl, p95),
		nil, nil, each, each}
}

// sumOf returns a statistic of the sum of two lengths of a request. It is known if one of the lengths is constant.
func sumOf(a, b *histogram.Summary, of func(*histogram.Summary) *float64) *float64 {
	if !constant(a) && !constant(b) || a == nil || b == nil {
		return nil
	}
	return new(*of(a) + *of(b))
}

// constant reports whether all values are equal.
func constant(d *histogram.Summary) bool { return d != nil && d.Min == d.Max }

// guideLatencyValues returns the latencies. The request latency lasts until the stream's end, of which results.json has
// no distribution.
func guideLatencyValues(s *results.StageResult) []*float64 {
	ttft, answer := firstText(s), firstAnswer(s)
	values := []*float64{nil, nil, nil, mean(ttft), median(ttft), p95(ttft), mean(answer), median(answer), p95(answer)}
	var itl, tpot [2]*float64 // median and p95: weights by tokens do not matter if all outputs have one length
	if osl := s.OSL.Seen; constant(osl) && osl.Mean > 1 {
		itl = [2]*float64{median(s.TPOT), p95(s.TPOT)}
		if s.E2E != nil {
			tpot = [2]*float64{new(s.E2E.P50 / osl.Mean), new(s.E2E.P95 / osl.Mean)}
		}
	}
	return append(values, weightedITL(s), itl[0], itl[1], weightedTPOT(s), tpot[0], tpot[1])
}

// weightedITL returns the time from the first to the last token of all requests, divided by their tokens but the first.
func weightedITL(s *results.StageResult) *float64 {
	decode, completed := meanDecode(s), s.Requests.Completed
	if decode == nil || s.OutputTokens == nil || s.TPOT == nil ||
		s.TPOT.Count != completed || s.E2E.Count != completed {
		return nil
	}
	return new(*decode * float64(completed) / float64(*s.OutputTokens-completed))
}

// weightedTPOT returns the time from the start to the last token of all requests, divided by their tokens.
func weightedTPOT(s *results.StageResult) *float64 {
	if s.E2E == nil || s.E2E.Count != s.Requests.Completed ||
		s.OutputTokens == nil || *s.OutputTokens == 0 {
		return nil
	}
	return new(s.E2E.Mean * float64(s.E2E.Count) / float64(*s.OutputTokens))
}

// guideThroughputValues returns the throughputs. They are known if all requests completed.
func guideThroughputValues(s *results.StageResult) []*float64 {
	if s.Requests.Completed == 0 || s.Requests.Completed != s.Requests.Started {
		return make([]*float64, 6)
	}
	return []*float64{nil, nil, s.RequestThroughput, inputThroughput(s), s.OutputTokenThroughput,
		s.TotalTokenThroughput}
}

// AIPerf returns a table with the rows of AIPerf's "LLM Metrics" for each stage, by the definitions of AIPerf 0.13 (the
// classes in aiperf/metrics/types). Where AIPerf needs a distribution that results.json does not have, the number is
// not known. AIPerf takes the times of frames with text; a first token without text makes its TTFT unknown.
func AIPerf(r *results.Result) *table.Table {
	t := &table.Table{Columns: slices.Concat(stageColumns("", ""), ColumnsOf("aiperf"))}
	for s := range lists.Refs(r.Stages) {
		for _, m := range aiperfRows(s) {
			row := newRow(s, stageName(s), append([]table.Cell{word(m.name)}, lists.Each(m.values[:], number)...)...)
			row.Mark = "" // the heading has it, once for all rows
			t.Rows = append(t.Rows, marked(t.Columns, s, row, m.of+"."))
		}
	}
	return explained(t)
}

// aiperfRow is a metric of AIPerf. of is the name in results.json of what it follows from.
type aiperfRow struct {
	name, of string
	values   aiperfValues
}

// aiperfValues are avg, min, max, p99, p90, p50 and std.
type aiperfValues [7]*float64

// spread returns the values of a metric that has a distribution.
func spread(d *histogram.Summary) aiperfValues {
	if d == nil {
		return aiperfValues{}
	}
	return aiperfValues{&d.Mean, &d.Min, &d.Max, &d.P99, &d.P90, &d.P50, &d.Std}
}

// aiperfRows returns AIPerf's metrics in its order.
func aiperfRows(s *results.StageResult) []aiperfRow {
	ended := s.Requests.Completed + s.Requests.Failed
	completed, all := float64(s.Requests.Completed), float64(ended)
	var errorRate *float64
	if ended > 0 {
		errorRate = new(100 * float64(s.Requests.Failed) / all)
	}
	rows := []aiperfRow{
		{"Time to First Token (ms)", "ttft_ms", spread(firstText(s))},
		{"Time to Second Token (ms)", "", aiperfValues{}}, // the second frame's time has no distribution of its own
		{"Time to First Output Token (ms)", "ttft_ms", spread(firstAnswer(s))},
		{"Request Latency (ms)", "e2e_ms", spread(s.E2E)},
		{"Decode Duration (ms)", "e2e_ms", aiperfValues{meanDecode(s)}},
		{"Inter Token Latency (ms)", "tpot_ms", spread(s.TPOT)},
		{"Output Token Throughput Per User (tokens/sec/user)", "tpot_ms", perUser(s.TPOT)},
		{"E2E Output Token Throughput (tokens/sec/user)", "", aiperfValues{}},
		{"Output Sequence Length (tokens)", "", spread(s.OSL.Seen)},
		{"Input Sequence Length (tokens)", "", spread(s.ISL.Seen)},
		{"Output Token Throughput (tokens/sec)", "output_token_throughput", aiperfValues{s.OutputTokenThroughput}},
		{"Input Token Throughput (tokens/sec)", "request_throughput", aiperfValues{inputThroughput(s)}},
		{"Request Throughput (requests/sec)", "request_throughput", aiperfValues{s.RequestThroughput}},
	}
	if s.Goodput != nil {
		rows = append(rows, aiperfRow{"Goodput (requests/sec)", "request_throughput",
			aiperfValues{s.Goodput.RequestThroughput}})
	}
	return append(rows,
		aiperfRow{"Completed Requests (Success + Error) (requests)", "", aiperfValues{&all}},
		aiperfRow{"Request Error Rate (%)", "", aiperfValues{errorRate}},
		aiperfRow{"Request Count (requests)", "", aiperfValues{&completed}})
}

// firstText returns the distribution of the time to the first text. It is that of the first token if every first token
// had text.
func firstText(s *results.StageResult) *histogram.Summary {
	if s.TTFTText != nil {
		return nil
	}
	return s.TTFT
}

// firstAnswer returns the distribution of the time to the first text that is not reasoning. It is known if no request
// streamed reasoning, or each one did.
func firstAnswer(s *results.StageResult) *histogram.Summary {
	switch {
	case s.TTFTAnswer == nil:
		return firstText(s)
	case s.TTFTAnswer.Count == s.Requests.Completed:
		return s.TTFTAnswer
	}
	return nil
}

// meanDecode returns the mean time from the first to the last token.
func meanDecode(s *results.StageResult) *float64 {
	ttft := firstText(s)
	if s.E2E == nil || ttft == nil || s.E2E.Count != ttft.Count {
		return nil
	}
	return new(s.E2E.Mean - ttft.Mean)
}

// perUser returns the distribution of the reciprocals of TPOT, as far as it follows from that of TPOT.
func perUser(tpot *histogram.Summary) aiperfValues {
	if tpot == nil || tpot.Min <= 0 {
		return aiperfValues{}
	}
	const perSecond = 1000
	return aiperfValues{1: new(perSecond / tpot.Max), 2: new(perSecond / tpot.Min), 5: new(perSecond / tpot.P50)}
}

// inputThroughput returns the input tokens of completed requests per second.
func inputThroughput(s *results.StageResult) *float64 {
	if s.InputTokens == nil || s.DurationS == nil || *s.DurationS <= 0 {
		return nil
	}
	return new(float64(*s.InputTokens) / *s.DurationS)
}
