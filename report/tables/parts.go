package tables

import (
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/table"
)

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
