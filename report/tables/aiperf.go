package tables

import (
	"slices"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/table"
)

// AIPerf returns a table with the rows of AIPerf's "LLM Metrics" for each stage, by the definitions of AIPerf 0.13 (the
// classes in aiperf/metrics/types). Where AIPerf needs a distribution that results.json does not have, the number is
// not known. AIPerf takes the times of frames with text; a first token without text makes its TTFT unknown.
func AIPerf(r *results.Result) *table.Table {
	t := &table.Table{Columns: slices.Concat(stageColumns("", ""), []table.Column{
		{Key: "metric", Header: "Metric", Label: true, Words: true},
		{Key: "avg", Header: "avg", Digits: 2}, {Key: "min", Header: "min", Digits: 2},
		{Key: "max", Header: "max", Digits: 2}, {Key: "p99", Header: "p99", Digits: 2},
		{Key: "p90", Header: "p90", Digits: 2}, {Key: "p50", Header: "p50", Digits: 2},
		{Key: "std", Header: "std", Digits: 2},
	})}
	for i := range r.Stages {
		s := &r.Stages[i]
		for _, m := range aiperfRows(s) {
			row := newRow(s, stageName(s), slices.Concat([]table.Cell{word(m.name)}, m.cells())...)
			row.Mark = "" // the heading has it, once for all rows
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// aiperfRow is a metric of AIPerf: avg, min, max, p99, p90, p50 and std.
type aiperfRow struct {
	name   string
	values [7]*float64
}

func (m aiperfRow) cells() []table.Cell {
	var cells []table.Cell
	for _, v := range m.values {
		cells = append(cells, number(v))
	}
	return cells
}

// spread returns a metric that has a distribution.
func spread(name string, d *histogram.Summary) aiperfRow {
	if d == nil {
		return aiperfRow{name: name}
	}
	return aiperfRow{name, [7]*float64{&d.Mean, &d.Min, &d.Max, &d.P99, &d.P90, &d.P50, &d.Std}}
}

// single returns a metric that has one value.
func single(name string, value *float64) aiperfRow { return aiperfRow{name, [7]*float64{value}} }

// aiperfRows returns AIPerf's metrics in its order.
func aiperfRows(s *results.StageResult) []aiperfRow {
	ended := s.Requests.Completed + s.Requests.Failed
	completed, all := float64(s.Requests.Completed), float64(ended)
	var errorRate *float64
	if ended > 0 {
		errorRate = new(100 * float64(s.Requests.Failed) / all)
	}
	rows := []aiperfRow{
		spread("Time to First Token (ms)", firstText(s)),
		spread("Time to Second Token (ms)", nil), // the second frame's time has no distribution of its own
		spread("Time to First Output Token (ms)", firstAnswer(s)),
		spread("Request Latency (ms)", s.E2E),
		single("Decode Duration (ms)", meanDecode(s)),
		spread("Inter Token Latency (ms)", s.TPOT),
		perUser("Output Token Throughput Per User (tokens/sec/user)", s.TPOT),
		spread("E2E Output Token Throughput (tokens/sec/user)", nil),
		spread("Output Sequence Length (tokens)", s.OSL.Seen),
		spread("Input Sequence Length (tokens)", s.ISL.Seen),
		single("Output Token Throughput (tokens/sec)", s.OutputTokenThroughput),
		single("Input Token Throughput (tokens/sec)", inputThroughput(s)),
		single("Request Throughput (requests/sec)", s.RequestThroughput),
	}
	if s.Goodput != nil {
		rows = append(rows, single("Goodput (requests/sec)", s.Goodput.RequestThroughput))
	}
	return append(rows,
		single("Completed Requests (Success + Error) (requests)", &all),
		single("Request Error Rate (%)", errorRate),
		single("Request Count (requests)", &completed))
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
func perUser(name string, tpot *histogram.Summary) aiperfRow {
	if tpot == nil || tpot.Min <= 0 {
		return aiperfRow{name: name}
	}
	const perSecond = 1000
	return aiperfRow{name, [7]*float64{1: new(perSecond / tpot.Max), 2: new(perSecond / tpot.Min),
		5: new(perSecond / tpot.P50)}}
}

// inputThroughput returns the input tokens of completed requests per second.
func inputThroughput(s *results.StageResult) *float64 {
	if s.InputTokens == nil || s.DurationS == nil || *s.DurationS <= 0 {
		return nil
	}
	return new(float64(*s.InputTokens) / *s.DurationS)
}
