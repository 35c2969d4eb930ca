package tables

import (
	"slices"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/table"
)

// Titles of GuideLLM's tables.
const (
	guideTokens     = "Request Token Statistics (Completed Requests)"
	guideLatency    = "Request Latency Statistics (Completed Requests)"
	guideThroughput = "Server Throughput Statistics (All Requests)"
)

// GuideLLM returns a table with a row for each stage: the columns of GuideLLM's console tables, by the definitions of
// GuideLLM 0.8 (guidellm/schemas/base/request_stats.py and guidellm/benchmark/schemas/metrics.py). GuideLLM takes the
// times of frames with text, weights its ITL and TPOT by tokens, and counts failed requests in throughputs. Where that
// needs a distribution that results.json does not have, the number is not known.
func GuideLLM(r *results.Result) *table.Table {
	t := &table.Table{Columns: slices.Concat(stageColumns("Strategy", ""), guideColumns())}
	for i := range r.Stages {
		s := &r.Stages[i]
		var cells []table.Cell
		for _, v := range slices.Concat(guideTokenValues(s), guideLatencyValues(s), guideThroughputValues(s)) {
			cells = append(cells, number(v))
		}
		t.Rows = append(t.Rows, newRow(s, s.Target+", "+s.Workload, cells...))
	}
	return t
}

// guideColumns returns the columns of all tables, in the order of the values.
func guideColumns() []table.Column {
	var columns []table.Column
	add := func(group, key, header string, stats ...string) {
		names := map[string]string{"mean": "Mean", "mdn": "Mdn", "p95": "p95"}
		for _, stat := range stats {
			columns = append(columns, table.Column{Key: key + "_" + stat, Header: header + " " + names[stat], Group: group,
				Digits: 1})
		}
	}
	add(guideTokens, "input_tokens_per_request", "Input Tok Per Req", "mdn", "p95")
	add(guideTokens, "output_tokens_per_request", "Output Tok Per Req", "mdn", "p95")
	add(guideTokens, "total_tokens_per_request", "Total Tok Per Req", "mdn", "p95")
	add(guideTokens, "stream_iterations_per_request", "Stream Iter Per Req", "mdn", "p95")
	add(guideTokens, "output_tokens_per_iteration", "Output Tok Per Stream Iter", "mdn", "p95")
	add(guideLatency, "request_latency_s", "Request Latency Sec", "mean", "mdn", "p95")
	add(guideLatency, "ttft_ms", "TTFT ms", "mean", "mdn", "p95")
	add(guideLatency, "ttfot_ms", "TTFOT ms", "mean", "mdn", "p95")
	add(guideLatency, "itl_ms", "ITL ms", "mean", "mdn", "p95")
	add(guideLatency, "tpot_ms", "TPOT ms", "mean", "mdn", "p95")
	add(guideThroughput, "concurrency", "Requests Concurrency", "mdn", "mean")
	add(guideThroughput, "requests_per_second", "Requests Per Sec", "mean")
	add(guideThroughput, "input_tokens_per_second", "Input Tokens Per Sec", "mean")
	add(guideThroughput, "output_tokens_per_second", "Output Tokens Per Sec", "mean")
	add(guideThroughput, "tokens_per_second", "Total Tokens Per Sec", "mean")
	return columns
}

func guideTokenValues(s *results.StageResult) []*float64 {
	isl, osl := s.ISL.Seen, s.OSL.Seen
	values := []*float64{median(isl), p95(isl), median(osl), p95(osl)}
	values = append(values, sumOf(isl, osl, median), sumOf(isl, osl, p95), nil, nil)
	if d := s.TokensPerFrame; constant(d) {
		return append(values, &d.Mean, &d.Mean)
	}
	return append(values, nil, nil)
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
