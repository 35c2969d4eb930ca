package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/headline"
	"github.com/spate-load/spate/report/tables"
)

// several returns what people read of several runs beside each other.
func several(c *compare.Comparison) table.Section {
	blocks := lists.Each(headline.Best(c).Lines(), said)
	for title, part := range sideBySide(c).Parts() {
		blocks = append(blocks, table.Block{Heading: title}, table.Block{Table: part})
	}
	blocks = append(blocks, table.Text("Values are medians over repeats, changes are those of the means. %s In brackets the "+
		"95 %% interval, where there is room.", legend(c)))
	blocks = append(append(blocks, lists.Each(c.Rows, said)...), table.Notes(notes(c))...)
	return table.NewSection(words.Printable("Runs against "+c.Baseline), blocks...)
}

// sideBySide returns a table with a row for each run under each workload and load. Above them is one for the baseline,
// and above those of a tool another one, by its definitions. Columns without a number are left out.
func sideBySide(c *compare.Comparison) *table.Table {
	t := table.New(table.Words("Run"), tables.ColumnsOf("several"))
	known, above := map[string]bool{}, map[string]bool{}
	for a := range lists.Refs(c.Sides) {
		for j := range a.Stages {
			s := &a.Stages[j]
			row := table.Row{Heading: gridOf(s) + ", " + loadName(s)}
			baseline := row
			baseline.Add(words.Printable(strings.TrimSuffix(c.Baseline+", by "+a.Tool, ", by ")))
			row.Mark = strings.Join(s.Marks, ", ")
			row.Add(words.Printable(a.Name))
			for _, column := range t.Columns[1:] {
				d := s.Difference(column.Key)
				known[column.Key] = known[column.Key] || d != nil && (d.Baseline != 0 || d.Value != 0)
				baseline.Cells, row.Cells = append(baseline.Cells, figure(d, false)), append(row.Cells, figure(d, true))
			}
			if of := row.Heading + a.Tool; !above[of] {
				t.Rows, above[of] = append(t.Rows, baseline), true
			}
			t.Rows = append(t.Rows, row)
		}
	}
	for i := range t.Columns[1:] {
		if c := &t.Columns[1+i]; !known[c.Key] {
			c.Header = ""
		}
	}
	return t
}

// figure is a value with its change, or else the baseline's, as wide.
func figure(d *compare.Difference, changed bool) table.Cell {
	c := cell(d)
	if d == nil || !changed {
		c = table.Cell{Text: table.Unknown, Mark: outcomes[compare.Untested], Aside: noInterval}
		if d != nil {
			c.Text = shortValue(d, d.Baseline)
		}
		c.Text += noInterval[:9]
		return c
	}
	if d.Change != nil {
		c.Text = fmt.Sprintf("%+.1f %s", 100**d.Change, map[bool]string{true: "points", false: "%"}[d.Unit == ""])
	}
	c.Text, c.Aside = fmt.Sprintf("%s %8s", shortValue(d, d.Value), c.Text), noInterval
	if d.Low != nil {
		c.Aside = fmt.Sprintf(" %-*s", len(noInterval)-1, fmt.Sprintf("(%+.1f to %+.1f)", 100**d.Low, 100**d.High))
	}
	return c
}

// noInterval is as wide as an interval of a change.
const noInterval = "                   "

func shortValue(d *compare.Difference, v float64) string {
	if d.Unit == "" {
		return fmt.Sprintf("%.1f %%", 100*v)
	}
	return words.Millis(v)
}

// notes says how other tools' numbers differ, what was left out, and what a reader must know of stages.
func notes(c *compare.Comparison) (notes []string) {
	for a := range lists.Refs(c.Sides) {
		all := slices.Concat(left("not compared: ", a.Refused), left("no counterpart: ", a.Unmatched),
			marked(a.Stages, StageName, stageMarks))
		if a.Tool != "" {
			all = append([]string{"written by " + a.Tool + ": " + strings.Join(a.Warnings, "; ")}, all...)
		}
		notes = append(notes, lists.Each(all, func(note string) string { return words.Printable(a.Name + ": " + note) })...)
	}
	return notes
}
