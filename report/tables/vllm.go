package tables

import (
	"slices"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/table"
)

// VLLM returns a table with a row for each stage: the columns of vLLM's "Serving Benchmark Result", by its definitions,
// as published comparisons put them side by side.
func VLLM(r *results.Result) *table.Table {
	t := &table.Table{Columns: slices.Concat(stageColumns("Load", "Backend/Setting"), []table.Column{
		{Key: "successful_requests", Header: "Successful Requests"},
		{Key: "duration_s", Header: "Duration (s)", Digits: 2},
		{Key: "total_input_tokens", Header: "Total Input Tokens"},
		{Key: "total_generated_tokens", Header: "Total Generated Tokens"},
		{Key: "request_throughput", Header: "Req Throughput (req/s)", Digits: 2},
		{Key: "output_token_throughput", Header: "Output Token Throughput (tok/s)", Digits: 2},
		{Key: "total_token_throughput", Header: "Total Token Throughput (tok/s)", Digits: 2},
	})}
	for _, m := range vllmMetrics {
		t.Columns = append(t.Columns,
			table.Column{Key: "mean_" + m.key, Header: "Mean " + m.header, Digits: 2},
			table.Column{Key: "median_" + m.key, Header: "Median " + m.header, Digits: 2},
			table.Column{Key: "p99_" + m.key, Header: "P99 " + m.header, Digits: 2})
	}
	for _, group := range sameLoads(r) {
		for _, s := range group {
			t.Rows = append(t.Rows, marked(t.Columns, s, vllmRow(s)))
		}
	}
	return explained(t)
}

// vllmMetrics are the metrics of the table.
var vllmMetrics = []struct {
	key, header string
	of          func(*results.VLLM) *results.VLLMMetric
}{
	{"ttft_ms", "TTFT (ms)", func(v *results.VLLM) *results.VLLMMetric { return v.TTFT }},
	{"tpot_ms", "TPOT (ms)", func(v *results.VLLM) *results.VLLMMetric { return v.TPOT }},
	{"itl_ms", "ITL (ms)", func(v *results.VLLM) *results.VLLMMetric { return v.ITL }},
}

func vllmRow(s *results.StageResult) table.Row {
	cells := []table.Cell{
		table.Count(s.Requests.Completed), number(s.DurationS), knownCount(s.InputTokens), knownCount(s.OutputTokens),
		number(s.RequestThroughput), number(s.OutputTokenThroughput), number(s.TotalTokenThroughput),
	}
	for _, m := range vllmMetrics {
		v := m.of(&s.VLLM)
		if v == nil {
			cells = append(cells, table.Cell{}, table.Cell{}, table.Cell{})
			continue
		}
		cells = append(cells, number(&v.Mean), number(&v.Median), number(&v.P99))
	}
	return newRow(s, s.Workload, cells...)
}
