package show

import (
	"strings"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
)

// stageTable has a row for each stage, with the changes of tableMetrics. name names a stage in it.
func stageTable(stages []compare.Stage, head string, name func(*compare.Stage) string) *table.Table {
	t := table.New(table.Words(head))
	for _, metric := range tableMetrics {
		t.Columns = append(t.Columns, table.Column{Header: titleOf(metric) + "  "}) // as wide as the marks
	}
	for i := range stages {
		s := &stages[i]
		row := t.Add(name(s))
		row.Mark = strings.Join(s.Marks, ", ")
		for _, metric := range tableMetrics {
			row.Cells = append(row.Cells, cell(find(s, metric)))
		}
	}
	return t
}

// answerTable has a row for each answer. name names an answer in it.
func answerTable(answers []compare.Answer, name func(*compare.Answer) string) *table.Table {
	t := table.New(table.Words("Answer"), table.Numbers("Change", "Interval", "p", "Baseline"), table.Words("at"),
		table.Numbers("Value"), table.Words("at", "Outcome"))
	for i := range answers {
		a := &answers[i]
		d := &a.Difference
		row := t.Add(name(a), "", interval(d), chanceOf(d), value(d, d.Baseline), foundAt(a, a.BaselineRuns),
			value(d, d.Value), foundAt(a, a.Runs), outcome(d))
		row.Mark, row.Cells[1] = strings.Join(a.Marks, ", "), cell(d)
	}
	return t
}

// numberTable has a row for each number of a side that differs, or with all for every number.
func numberTable(a *compare.Against, all bool) *table.Table {
	t := table.New(table.Words("Stage", "Number"), table.Numbers("Change", "Interval", "p", "Baseline", "Value"),
		table.Words("Outcome"))
	for i := range a.Stages {
		s := &a.Stages[i]
		for j := range s.Metrics {
			if d := &s.Metrics[j]; all || called(d) {
				row := t.Add(StageName(s), titleOf(d.Metric), change(d, d.Change), interval(d), chanceOf(d),
					value(d, d.Baseline), value(d, d.Value), outcome(d))
				row.Cells[2].Class = string(d.Outcome)
			}
		}
	}
	return t
}

// cell is a change with its mark, or the reason why it was not tested.
func cell(d *compare.Difference) table.Cell {
	if d == nil {
		return table.Cell{Text: "n/a", Mark: "  ", Class: string(compare.Untested), Note: "not measured"}
	}
	c := table.Cell{Text: change(d, d.Change), Mark: outcomes[d.Outcome], Class: string(d.Outcome)}
	if d.Outcome == compare.Untested {
		c.Note = words.Printable(d.Why)
	}
	return c
}

// called reports whether a number is worse or better.
func called(d *compare.Difference) bool {
	return d.Outcome == compare.Worse || d.Outcome == compare.Better
}

// outcome is an outcome with its reason.
func outcome(d *compare.Difference) string {
	if d.Why == "" {
		return string(d.Outcome)
	}
	return string(d.Outcome) + ": " + words.Printable(d.Why)
}

// interval formats the interval of a difference.
func interval(d *compare.Difference) string {
	if d.Low == nil {
		return "n/a"
	}
	return change(d, d.Low) + " to " + change(d, d.High)
}

// chanceOf formats the probability that chance makes a difference.
func chanceOf(d *compare.Difference) string {
	if d.PAdjusted == nil {
		return "n/a"
	}
	return probability(*d.PAdjusted)
}
