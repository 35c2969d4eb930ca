package tables

import (
	"fmt"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/loadpoint"
)

// Frontiers returns a table of throughput against latency: for each frontier a row for each of its stages, by load. The
// table has no rows if the run has no frontiers.
func Frontiers(r *results.Result) *table.Table {
	t := &table.Table{Columns: []table.Column{
		{Key: "target", Words: true}, {Key: "workload", Words: true}, {Key: "latency", Words: true},
		{Key: "unit", Words: true}, {Key: "stage"}, {Key: "load"},
		{Key: "load_words", Header: "Load", Label: true, Words: true}, {Key: "verdict", Words: true},
		{Key: "request_throughput", Header: "Requests/s", Digits: 2},
		{Key: "output_token_throughput", Header: "Output tok/s", Digits: 2},
		{Key: "latency_ms", Header: "Latency (ms)", Digits: 2},
		{Key: "goodput", Header: "Good requests/s", Digits: 2}, {Key: "good_share", Digits: 4},
		{Key: "pareto", Words: true}, {Key: "left_out", Words: true},
		{Key: "answers", Header: "Point", Words: true},
	}}
	for _, f := range r.Run.SeriesOf(loadpoint.Frontier) {
		for _, p := range f.Points {
			t.Rows = append(t.Rows, frontierRow(r, f, p))
		}
	}
	return t
}

// frontierRow returns the row of a point.
func frontierRow(r *results.Result, f *results.SeriesResult, p results.SeriesPoint) table.Row {
	verdict, leftOut, load := "", "", ""
	if p.Verdict != nil {
		verdict = string(*p.Verdict)
	}
	if p.LeftOut != nil {
		leftOut = *p.LeftOut
	}
	if s := results.StageAt(r.Stages, p.Stage); s != nil {
		load = s.Load.Words
	}
	row := table.Row{
		Heading: words.Printable(fmt.Sprintf("%s, %s: throughput against %s", f.Target, f.Workload, f.Latency)),
		Name:    words.Printable(f.Target + ", " + f.Workload + ", " + load),
		Cells: []table.Cell{word(f.Target), word(f.Workload), word(f.Latency), word(f.Unit), table.Count(p.Stage + 1),
			number(&p.Load), word(load), word(verdict), number(p.RequestThroughput), number(p.OutputTokenThroughput),
			number(p.LatencyMs), number(p.Goodput), number(p.GoodShare), word(Yes(p.Pareto)), word(leftOut),
			word(strings.Join(answersOf(f, p), ", "))},
	}
	var marks []string
	if verdict != "" && verdict != string(trust.Valid) {
		marks = append(marks, verdict)
	}
	if leftOut != "" {
		marks = append(marks, "not on the curve: "+words.Printable(leftOut))
	}
	row.Mark = strings.Join(marks, ", ")
	return row
}

// answersOf says what a point is: the answers that it gives, and whether others are better.
func answersOf(f *results.SeriesResult, p results.SeriesPoint) (list []string) {
	is := func(stage *uint32) bool { return stage != nil && *stage == p.Stage }
	if p.Pareto {
		list = append(list, "Pareto")
	}
	if is(f.Knee) {
		list = append(list, "knee")
	}
	if is(f.HighestGoodput) {
		list = append(list, "highest goodput")
	}
	for _, l := range f.Limits {
		switch {
		case !is(l.Stage):
		case l.Part == nil:
			list = append(list, "highest within limits")
		default:
			list = append(list, "highest within limits of "+*l.Part)
		}
	}
	return list
}
