package tables

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
)

// Slowest returns a table of the examples of each stage's requests, with links to their traces. A note says that the
// run kept no rows, which it has them from.
func Slowest(r *results.Result) *table.Table {
	t := &table.Table{Columns: slices.Concat(stageColumns("", ""), ColumnsOf("slowest"))}
	if r.Run.Records == nil {
		t.Notes = []string{"The run kept no rows of requests, which show why some are slow: run it with --records parquet."}
	}
	for s := range lists.Refs(r.Stages) {
		for j := range s.Examples {
			t.Rows = append(t.Rows, newRow(s, stageName(s), exampleCells(r, s, &s.Examples[j])...))
		}
	}
	return t
}

// exampleCells returns the cells of a request.
func exampleCells(r *results.Result, s *results.StageResult, x *results.Example) []table.Cell {
	var gap, at *float64
	if len(x.Gaps) > 0 {
		gap, at = &x.Gaps[0].GapMs, &x.Gaps[0].AtMs
	}
	trace, connect := word(*cmp.Or(x.TraceID, new(table.Unknown))), number(x.ConnectMs)
	if x.ConnectMs == nil {
		connect.Text = "open" // it had been used before
	}
	if of := r.Run.Target(s.Target); of != nil && of.TraceURL != nil && x.TraceID != nil {
		trace.Link = strings.ReplaceAll(*of.TraceURL, "{trace_id}", *x.TraceID)
	}
	tokens := table.Cell{}
	if x.OutputTokens != nil {
		tokens = table.Count(*x.OutputTokens)
	}
	return []table.Cell{word(x.Of), table.Count(x.Index), table.Count(x.Turn), number(&x.E2EMs), number(x.TTFTMs),
		trace, number(gap), number(at), number(x.HeldMs), number(&x.SendDelayMs), connect, number(x.SentMs),
		number(x.FirstByteMs), number(x.ServerQueueMs), tokens, word(x.Agent), word(x.Endpoint)}
}
