package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/page"
	"github.com/spate-load/spate/report/tables"
)

// Table writes a table for each target and workload, for a terminal that is width columns wide; 0 means any width.
// Times are in milliseconds. Rows with a mark have a note below their table.
func Table(w io.Writer, r *results.Result, width int) error {
	var b strings.Builder
	if k := r.Run.TimeCompression; k != nil {
		writeWrapped(&b, "", compressed(*k), width)
		b.WriteByte('\n')
	}
	r = new(*r)
	r.Stages = notable(r.Stages) // by times as they were
	r = results.InPlanTime(r)
	for i, g := range gridsOf(r) {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintln(&b, g.title())
		grid := g.table(func(c column) string { return c.wide }, fixed, "  ")
		if width > 0 && grid.Width() > width {
			grid = g.table(func(c column) string { return c.narrow }, short, " ")
		}
		_ = grid.Write(&b) // a strings.Builder takes everything
		notes := &once{}
		for _, s := range g.stages {
			if note := noteOf(s, notes); note != "" {
				note += notes.example(s) // unlike report.md, the terminal shows no table of errors
				writeWrapped(&b, "! ", fmt.Sprintf("%s: %s", s.Load, note), width)
			}
		}
		for _, line := range slices.DeleteFunc(append(g.fewNotes(), g.nearness()), func(s string) bool { return s == "" }) {
			writeWrapped(&b, "", line, width)
		}
	}
	if parts := tables.Parts(r); len(parts.Rows) > 0 {
		b.WriteByte('\n')
		_ = parts.Text(&b, width) // a strings.Builder takes everything
	}
	if judged := verdicts(r.Stages); judged != "" {
		fmt.Fprintf(&b, "\nTrust: %s\n", judged)
		for _, line := range remedies(r.Stages) {
			writeWrapped(&b, "  ", line, width)
		}
	}
	for _, note := range loadNotes(r.Stages) {
		writeWrapped(&b, "Note: ", note, width)
	}
	if judged := ThresholdWords(r); judged != "" {
		fmt.Fprintf(&b, "\n%s:\n", judged)
		for _, line := range thresholdLines(r) {
			writeWrapped(&b, "  ", line, width)
		}
	}
	_, err := io.WriteString(w, printable(b.String()))
	return err
}

// Answer writes the run's answer in words, for a terminal as Table does.
func Answer(w io.Writer, r *results.Result, width int) error {
	var b strings.Builder
	for _, line := range r.Headline.Lines() {
		writeWrapped(&b, "", line, width)
	}
	_, err := io.WriteString(w, printable(b.String()))
	return err
}

// printable drops from words of plans and servers what could control a terminal, or change the direction of text.
func printable(text string) string { return string(page.Printable([]byte(text))) }

// writeWrapped writes text after a mark, wrapped between words to width columns; 0 means any width.
func writeWrapped(b *strings.Builder, mark, text string, width int) {
	if width > 0 {
		width = max(1, width-len(mark))
	}
	for _, line := range words.Wrap(text, width) {
		b.WriteString(mark + line + "\n")
		mark = strings.Repeat(" ", len(mark))
	}
}

// compressed returns words that say that the run was a simulation, and which times are those of its plan.
func compressed(k float64) string {
	if k == 1 {
		return "SIMULATION: simulated engines in place of the plan's endpoints, at the plan's own pace."
	}
	return fmt.Sprintf("SIMULATION with time compressed %s times. Rates and times in tables are the plan's; verdicts, "+
		"thresholds, charts over time and results.json have what was measured.", shortest(k))
}

// short formats a number in little space: with at most two decimals, and without any from 100 up.
func short(v *float64) string {
	switch {
	case v == nil:
		return unknown
	case *v >= 100:
		return fmt.Sprintf("%.0f", *v)
	case *v >= 10:
		return fmt.Sprintf("%.1f", *v)
	}
	return fmt.Sprintf("%.2f", *v)
}

// table returns a table: header lines, then one line per stage, all aligned right.
func (g *grid) table(header func(column) string, format func(*float64) string, gap string) *table.Aligned {
	headers := lists.Each(g.columns(), func(c column) []string { return strings.Split(header(c), "\n") })
	t := &table.Aligned{Right: slices.Repeat([]bool{true}, 1+len(headers)), Gap: gap}
	height := len(headers[0])
	for line := range height {
		cells := []string{""}
		if line == height-1 {
			cells[0] = g.loadHeader()
		}
		for _, h := range headers {
			cells = append(cells, h[line])
		}
		t.Row(cells...)
	}
	anyMarked := make([]bool, len(headers))
	for _, row := range g.rows() {
		for i, v := range row.values {
			anyMarked[i] = anyMarked[i] || v.mark != ""
		}
	}
	for _, row := range g.rows() {
		cells := []string{row.load}
		if !strings.HasSuffix(cells[0], "!") {
			cells[0] += "  " // to align the numbers with those that have a mark
		}
		for i, v := range row.values {
			cell := format(v.value)
			if anyMarked[i] {
				cell += fmt.Sprintf("%-1s", v.mark) // to align the numbers with those that have a mark
			}
			cells = append(cells, cell)
		}
		t.Row(cells...)
	}
	return t
}

// mostSummary is the size in bytes up to which a summary has the tables of numbers. GitHub takes 1 MiB for a step.
const mostSummary = 900 << 10

// Summary writes the run in short as Markdown, for the page of a CI job: what is missing, thresholds, verdicts and the
// tables of numbers. If the tables are too long for a page, they are left out, and the summary says so.
func Summary(w io.Writer, r *results.Result) error {
	var b, numbers strings.Builder
	k := r.Run.TimeCompression
	r = results.InPlanTime(r)
	writeHead(&b, r, k)
	thresholdsSection(r).Markdown(&b)
	trustSection(r.Stages).Markdown(&b)
	for _, s := range lists.Each(gridsOf(r), (*grid).section) {
		s.Markdown(&numbers)
	}
	if b.Len()+numbers.Len() > mostSummary {
		numbers.Reset()
		fmt.Fprintf(&numbers, "\nThe tables of %s are too long for this page: see report.html.\n",
			words.Count(uint64(len(r.Stages)), "stage"))
	}
	_, err := io.WriteString(w, printable(b.String()+numbers.String()+"\n"))
	return err
}
