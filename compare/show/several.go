package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/headline"
)

// figures are the columns of several runs beside each other, by the part of the table that they are in.
func figures() (all []table.Column) {
	add := func(part string, metrics ...string) {
		for _, metric := range metrics {
			title := strings.TrimPrefix(compare.TitleOf(metric), strings.TrimSuffix(part, "(ms)"))
			all = append(all, table.Column{Key: metric, Group: part, Header: title})
		}
	}
	add("throughput", "request_throughput", "output_token_throughput")
	add("GPUs and costs", "output_tokens_per_gpu", "output_tokens_per_dollar")
	add("requests", "goodput.share", "error_share")
	for _, latency := range []string{"ttft", "tpot", "itl", "e2e"} {
		add(strings.ToUpper(latency)+" (ms)", latency+"_ms.mean", latency+"_ms.p50", latency+"_ms.p99")
	}
	return all
}

// several returns what people read of several runs beside each other.
func several(c *compare.Comparison) table.Section {
	var blocks []table.Block
	for _, line := range headline.Best(c).Lines() {
		blocks = append(blocks, table.Block{Text: line})
	}
	for title, part := range sideBySide(c).Parts() {
		blocks = append(blocks, table.Block{Heading: title}, table.Block{Table: part})
	}
	blocks = append(blocks, table.Text("Values are medians over repeats, changes are those of the means. %s In brackets the "+
		"95 %% interval, where there is room.", legend(c)))
	for _, row := range c.Rows {
		blocks = append(blocks, table.Block{Text: words.Printable(row)})
	}
	blocks = append(blocks, table.Notes(notes(c))...)
	return table.NewSection(words.Printable("Runs against "+c.Baseline), blocks...)
}

// sideBySide returns a table with a row for each run under each workload and load. Above them is one for the baseline,
// and above those of a tool another one, by its definitions. Columns without a number are left out.
func sideBySide(c *compare.Comparison) *table.Table {
	t := table.New(table.Words("Run"), figures())
	known, headings := map[string]bool{}, []string{}
	for i := range c.Sides {
		for j := range c.Sides[i].Stages {
			headings = words.AppendOnce(headings, headingOf(&c.Sides[i].Stages[j]))
		}
	}
	for _, heading := range headings {
		above := map[string]bool{}
		for i := range c.Sides {
			a := &c.Sides[i]
			at := slices.IndexFunc(a.Stages, func(s compare.Stage) bool { return headingOf(&s) == heading })
			if at < 0 {
				continue
			}
			s := &a.Stages[at]
			baseline, row := table.Row{Heading: heading}, table.Row{Heading: heading, Mark: strings.Join(s.Marks, ", ")}
			baseline.Add(words.Printable(strings.TrimSuffix(c.Baseline+", by "+a.Tool, ", by ")))
			row.Add(words.Printable(a.Name))
			for _, column := range t.Columns[1:] {
				d := s.Difference(column.Key)
				known[column.Key] = known[column.Key] || d != nil && (d.Baseline != 0 || d.Value != 0)
				baseline.Cells, row.Cells = append(baseline.Cells, baselineCell(d)), append(row.Cells, valueCell(d))
			}
			if !above[a.Tool] {
				t.Rows = append(t.Rows, baseline)
			}
			above[a.Tool], t.Rows = true, append(t.Rows, row)
		}
	}
	for i := range t.Columns {
		if i > 0 && !known[t.Columns[i].Key] {
			t.Columns[i].Header = ""
		}
	}
	return t
}

// headingOf is what the rows of a stage stand under.
func headingOf(s *compare.Stage) string { return gridOf(s) + ", " + loadName(s) }

// valueCell is a value with its change; baselineCell one without, as wide.
func valueCell(d *compare.Difference) table.Cell {
	c := cell(d)
	if d == nil {
		return baselineCell(d)
	}
	if d.Change != nil {
		c.Text = strings.Replace(fmt.Sprintf("%+.1f %%", 100**d.Change), "%", map[bool]string{true: "points", false: "%"}[d.Unit == ""], 1)
	}
	c.Text, c.Aside = fmt.Sprintf("%s %8s", shortValue(d, d.Value), c.Text), noInterval
	if d.Low != nil {
		c.Aside = fmt.Sprintf(" %-*s", len(noInterval)-1, fmt.Sprintf("(%+.1f to %+.1f)", 100**d.Low, 100**d.High))
	}
	return c
}

func baselineCell(d *compare.Difference) table.Cell {
	c := table.Cell{Text: table.Unknown, Mark: outcomes[compare.Untested], Aside: noInterval}
	if d != nil {
		c.Text = shortValue(d, d.Baseline)
	}
	c.Text += noInterval[:9]
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
	for i := range c.Sides {
		a := &c.Sides[i]
		all := slices.Concat(left("not compared: ", a.Refused), left("no counterpart: ", a.Unmatched),
			marked(a.Stages, StageName, stageMarks))
		if a.Tool != "" {
			all = append([]string{"written by " + a.Tool + ": " + strings.Join(a.Warnings, "; ")}, all...)
		}
		for _, note := range all {
			notes = append(notes, words.Printable(a.Name+": "+note))
		}
	}
	return notes
}
