package tables

import (
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
)

// Stages returns a table with a row for each stage, and its main numbers.
func Stages(r *results.Result) *table.Table {
	columns := slices.Concat(ColumnsOf("stages"), ColumnsOf("latencies"))
	t := &table.Table{Columns: slices.Concat(stageColumns("Load", "Target"), columns)}
	for s := range lists.Refs(r.Stages) {
		t.Rows = append(t.Rows, marked(t.Columns, s, newRow(s, s.Workload, cellsOf(s, columns)...), ""))
	}
	return explained(t)
}

// Parts returns a table with a row for each part of the mixture of each stage, and its main numbers. The table has no
// rows if the run has no mixtures.
func Parts(r *results.Result) *table.Table {
	own, latencies, asked := ColumnsOf("parts"), ColumnsOf("latencies"), ColumnsOf("asked")
	t := &table.Table{Columns: slices.Concat(stageColumns("Load", "Target"),
		[]table.Column{{Key: "part", Header: "Part", Label: true, Words: true}}, own, latencies, asked)}
	for _, s := range slices.Concat(sameLoads(r)...) {
		for p := range lists.Refs(s.Parts) {
			cells := cellsOf(p, latencies)
			for i, c := range cells {
				if c.Number != nil {
					cells[i].Mark = s.MarkIn(&p.Latencies, latencies[i].Field)
				}
			}
			t.Rows = append(t.Rows, newRow(s, s.Workload,
				slices.Concat([]table.Cell{word(p.Name)}, cellsOf(p, own), cells, cellsOf(p, asked))...))
		}
	}
	for i, c := range t.Columns {
		// People get what fits into a terminal.
		known := func(row table.Row) bool { return row.Cells[i].Number != nil }
		if strings.HasPrefix(c.Key, "median_") || strings.HasSuffix(c.Key, "_itl_ms") ||
			i >= len(t.Columns)-len(asked) && !slices.ContainsFunc(t.Rows, known) {
			t.Columns[i].Header = ""
		}
	}
	return explained(t)
}
