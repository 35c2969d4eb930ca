package tables

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/loadpoint"
)

// Frontiers returns a table of throughput against latency: for each frontier a row for each of its stages, by load. The
// table has no rows if the run has no frontiers.
func Frontiers(r *results.Result) *table.Table {
	t := &table.Table{Columns: ColumnsOf("frontiers")}
	for _, f := range r.Run.SeriesOf(loadpoint.Frontier) {
		of := func(p results.SeriesPoint) table.Row { return frontierRow(r, f, p) }
		t.Rows = append(t.Rows, lists.Each(f.Points, of)...)
	}
	return t
}

// frontierRow returns the row of a point.
func frontierRow(r *results.Result, f *results.SeriesResult, p results.SeriesPoint) table.Row {
	verdict, leftOut, load, off := *cmp.Or(p.Verdict, new(trust.Verdict)), *cmp.Or(p.LeftOut, new("")), "", ""
	if s := results.StageAt(r.Stages, p.Stage); s != nil {
		load = s.Load.Words
	}
	row := table.Row{
		Heading: words.Printable(fmt.Sprintf("%s, %s: throughput against %s", f.Target, f.Workload, f.Latency)),
		Name:    words.Printable(f.Target + ", " + f.Workload + ", " + load),
		Cells: []table.Cell{word(f.Target), word(f.Workload), word(f.Latency), word(f.Unit), table.Count(p.Stage + 1),
			number(&p.Load), word(load), word(string(verdict)), number(p.RequestThroughput),
			number(p.OutputTokenThroughput), number(p.LatencyMs), number(p.Goodput), number(p.GoodShare),
			word(Yes(p.Pareto)), word(leftOut), word(strings.Join(answersOf(f, p), ", "))},
	}
	if leftOut != "" {
		off = "not on the curve: " + words.Printable(leftOut)
	}
	row.Mark = words.Joined(", ", doubtful(verdict), off)
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

// throughputs is how many of the first columns of targets are throughputs and what they cost.
const throughputs = 4

// Searches returns a table of the answers of searches: for each workload and question a row for each target, with
// ratios to the baseline target, which is named as for Targets. A ratio is known if both searches have an answer that
// is not INVALID. The table has no rows if the run has no searches.
func Searches(r *results.Result, baseline string) (*table.Table, error) {
	name, err := baselineOf(r, baseline)
	if err != nil {
		return nil, err
	}
	columns := ColumnsOf("searches")
	for _, c := range targetColumns(r)[len(stageColumns("", "")):][:throughputs] {
		if c.Header != "" {
			c.Header += " there"
		}
		columns = append(columns, c)
	}
	t := &table.Table{Columns: columns, Notes: targetNotes(r, name, "")}
	searches := r.Run.SeriesOf(loadpoint.Search)
	for _, s := range searches {
		row := searchRow(r, s)
		base := slices.IndexFunc(searches, func(o *results.SeriesResult) bool {
			return o.Target == name && question(o) == question(s)
		})
		if base >= 0 && s.Target != name && believed(searches[base]) && believed(s) {
			other := searchRow(r, searches[base])
			for j := range columns {
				if columns[j].Compared {
					row.Cells[j].Ratio = ratio(row.Cells[j].Number, other.Cells[j].Number)
				}
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

// Choices returns a table of choices between targets: for each a row for each target, the best first. The table has no
// rows if the run has none.
func Choices(r *results.Result) *table.Table {
	t := &table.Table{Columns: ColumnsOf("choices")}
	for _, s := range r.Run.SeriesOf(loadpoint.Choice) {
		for _, v := range s.Rivals {
			row := table.Row{Heading: words.Printable(s.Workload + ": the best target by " + strings.ReplaceAll(s.Best, "_", " ")),
				Name:  v.Target,
				Cells: []table.Cell{word(s.Workload), word(s.Best), word(v.Target), table.Count(uint32(len(v.Stages)))}}
			for _, share := range []*float64{v.Change, v.Low, v.High} {
				if share != nil {
					share = new(100 * *share)
				}
				row.Cells = append(row.Cells, number(share))
			}
			row.Cells = append(row.Cells, word(*cmp.Or(v.Reason, new(""))))
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// question is what the searches of several targets have in common.
func question(s *results.SeriesResult) string {
	unit := "req/s"
	if s.Unit == "concurrency" {
		unit = "requests in flight"
	}
	return s.Workload + ": the highest load in " + unit + " with " + strings.Join(s.Objectives, ", ")
}

// believed reports whether a search has an answer that means what it says.
func believed(s *results.SeriesResult) bool {
	return s.Limit().Kept != nil && (s.Verdict == nil || *s.Verdict != trust.Invalid)
}

// searchRow returns the row of a search, without ratios.
func searchRow(r *results.Result, s *results.SeriesResult) table.Row {
	verdict, rough := *cmp.Or(s.Verdict, new(trust.Verdict)), ""
	if !s.Converged {
		rough = "not as precise as requested"
	}
	row := table.Row{
		Heading: words.Printable(question(s)), Mark: words.Joined(", ", doubtful(verdict), rough),
		Name: words.Printable(s.Target + ", " + s.Workload),
		Cells: []table.Cell{word(s.Workload), word(strings.Join(s.Objectives, ", ")), word(s.Unit), word(s.Target),
			word(string(verdict)), word(Yes(s.Converged)), number(s.Limit().Kept), number(s.Limit().Broke)},
	}
	numbers := make([]*float64, throughputs)
	if stage := s.Limit().Stage; stage != nil {
		if at := results.StageAt(r.Stages, *stage); at != nil {
			numbers = targetNumbers(r, at)[:throughputs]
		}
	}
	row.Cells = append(row.Cells, lists.Each(numbers, number)...)
	return row
}
