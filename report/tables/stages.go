package tables

import (
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/table"
)

// Stages returns a table with a row for each stage, and its main numbers.
func Stages(r *results.Result) *table.Table {
	columns := slices.Concat(stageColumns("Load", "Target"), []table.Column{
		{Key: "concurrency"}, {Key: "rate"},
		{Key: "requests_completed", Header: "Completed"}, {Key: "requests_failed", Header: "Failed"},
		{Key: "requests_cancelled"}, {Key: "requests_never_sent"},
		{Key: "duration_s", Header: "Duration (s)", Digits: 2},
		{Key: "input_tokens"}, {Key: "output_tokens"},
		{Key: "request_throughput", Header: "Requests/s", Digits: 2},
		{Key: "output_token_throughput", Header: "Output tok/s", Digits: 2},
		{Key: "total_token_throughput", Digits: 2},
		{Key: "goodput_share"}, {Key: "text_throughput"},
		{Key: "canaries_differing_share"}, {Key: "tasks_right_share"},
	})
	t := &table.Table{Columns: append(columns, latencyColumns()...)}
	for i := range r.Stages {
		t.Rows = append(t.Rows, marked(t.Columns, &r.Stages[i], stageRow(&r.Stages[i])))
	}
	return explained(t)
}

// latencies are the latencies of a row, by their names in results.json.
var latencies = []struct{ key, header string }{
	{"ttft_ms", "TTFT (ms)"}, {"tpot_ms", "TPOT (ms)"}, {"itl_ms", "ITL (ms)"}, {"e2e_ms", "E2E (ms)"},
}

// latencyColumns returns the columns of latencies. latencyCells has the cells.
func latencyColumns() (columns []table.Column) {
	for _, m := range latencies {
		columns = append(columns,
			table.Column{Key: "mean_" + m.key, Header: "Mean " + m.header, Digits: 2},
			table.Column{Key: "median_" + m.key, Header: "Median " + m.header, Digits: 2},
			table.Column{Key: "p90_" + m.key}, table.Column{Key: "p95_" + m.key},
			table.Column{Key: "p99_" + m.key, Header: "P99 " + m.header, Digits: 2})
	}
	return columns
}

// latencyCells returns the cells of the latencies of a stage or of a part of it, with their marks.
func latencyCells(s *results.StageResult, l *results.Latencies) (cells []table.Cell) {
	for _, m := range latencies {
		for _, statistic := range []string{"mean", "p50", "p90", "p95", "p99"} {
			name := m.key + "." + statistic
			c := number(l.Number(name))
			if c.Number != nil {
				c.Mark = s.MarkIn(l, name)
			}
			cells = append(cells, c)
		}
	}
	return cells
}

func stageRow(s *results.StageResult) table.Row {
	answers := results.CanaryAnswers{}
	if s.Canaries != nil {
		answers = s.Canaries.Load
	}
	cells := []table.Cell{
		knownCount(s.Load.Concurrency), number(s.Load.Rate),
		table.Count(s.Requests.Completed), table.Count(s.Requests.Failed), table.Count(s.Requests.Cancelled),
		knownCount(s.Requests.NeverSent), number(s.DurationS), knownCount(s.InputTokens), knownCount(s.OutputTokens),
		number(s.RequestThroughput), number(s.OutputTokenThroughput), number(s.TotalTokenThroughput),
		number(s.Number("goodput.share")),
		number(s.TextThroughput),
		number(answers.DifferingShare), number(answers.RightShare),
	}
	return newRow(s, s.Workload, append(cells, latencyCells(s, &s.Latencies)...)...)
}

// asked are the columns about what only some requests ask for. People see those that a part has a number in.
var asked = []table.Column{
	{Key: "images"}, {Key: "image_tokens_each", Header: "Tokens of an image", Digits: 2},
	{Key: "tool_calls"}, {Key: "valid_calls_percent", Header: "Valid calls (%)", Digits: 2},
	{Key: "answers_checked"}, {Key: "valid_answers_percent", Header: "Valid answers (%)", Digits: 2},
}

// askedCells returns the cells of a part in these columns.
func askedCells(p *results.PartResult) []table.Cell {
	cells := make([]table.Cell, 0, len(asked))
	if i := p.Images; i != nil {
		cells = append(cells, table.Count(i.Count), number(&i.TokensEach))
	} else {
		cells = append(cells, table.Cell{}, table.Cell{})
	}
	if t := p.Tools; t != nil {
		cells = append(cells, table.Count(t.Calls), number(percent(t.ValidShare)))
	} else {
		cells = append(cells, table.Cell{}, table.Cell{})
	}
	if a := p.Answers; a != nil {
		return append(cells, table.Count(a.Checked), number(percent(a.ValidShare)))
	}
	return append(cells, table.Cell{}, table.Cell{})
}

// Parts returns a table with a row for each part of the mixture of each stage, and its main numbers. The table has no
// rows if the run has no mixtures.
func Parts(r *results.Result) *table.Table {
	columns := append(stageColumns("Load", "Target"), []table.Column{
		{Key: "part", Header: "Part", Label: true, Words: true}, {Key: "weight", Digits: 4},
		{Key: "share", Header: "Requests (%)", Digits: 2},
		{Key: "requests_completed", Header: "Completed"}, {Key: "requests_failed", Header: "Failed"},
		{Key: "requests_cancelled"},
		{Key: "request_throughput", Header: "Requests/s", Digits: 2},
		{Key: "output_token_throughput", Header: "Output tok/s", Digits: 2},
		{Key: "good_percent", Header: "Good (%)", Digits: 2},
	}...)
	columns = append(columns, latencyColumns()...)
	first := len(columns)
	t := &table.Table{Columns: append(columns, asked...)}
	for _, s := range slices.Concat(sameLoads(r)...) {
		for j := range s.Parts {
			p := &s.Parts[j]
			var good *float64
			if p.Goodput != nil {
				good = p.Goodput.Share
			}
			cells := []table.Cell{word(p.Name), number(&p.Weight), number(percent(p.Share)),
				table.Count(p.Requests.Completed), table.Count(p.Requests.Failed), table.Count(p.Requests.Cancelled),
				number(p.RequestThroughput),
				number(p.OutputTokenThroughput), number(percent(good))}
			cells = slices.Concat(cells, latencyCells(s, &p.Latencies), askedCells(p))
			t.Rows = append(t.Rows, newRow(s, s.Workload, cells...))
		}
	}
	for i, c := range t.Columns {
		// People get what fits into a terminal.
		known := func(row table.Row) bool { return row.Cells[i].Number != nil }
		if strings.HasPrefix(c.Key, "median_") || strings.HasSuffix(c.Key, "_itl_ms") ||
			i >= first && !slices.ContainsFunc(t.Rows, known) {
			t.Columns[i].Header = ""
		}
	}
	return explained(t)
}

// percent returns a share in percent. Nil: it is not known.
func percent(share *float64) *float64 {
	if share == nil {
		return nil
	}
	return new(100 * *share)
}
