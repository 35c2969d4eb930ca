package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spate-load/spate/aggregate/results"
)

// Headers of the numbers for a wide and a narrow terminal, with one or two words per line. The last one is for goodput.
var (
	wideHeaders = [][]string{
		{"Request", "Throughput", "(req/s)"}, {"Output Token", "Throughput", "(tok/s)"},
		{"Mean", "E2E", "(ms)"}, {"P99", "E2E", "(ms)"}, {"Mean", "TTFT", "(ms)"}, {"P99", "TTFT", "(ms)"},
		{"Mean", "TPOT", "(ms)"}, {"P99", "TPOT", "(ms)"}, {"", "Good", "(%)"},
	}
	narrowHeaders = [][]string{
		{"req", "/s"}, {"tok", "/s"}, {"E2E", "mean"}, {"E2E", "p99"}, {"TTFT", "mean"}, {"TTFT", "p99"},
		{"TPOT", "mean"}, {"TPOT", "p99"},
		{"good", "%"},
	}
)

// Table writes a table for each target and workload, for a terminal that is width columns wide; 0 means any width.
// Times are in milliseconds. Rows with a mark have a note below their table.
func Table(w io.Writer, r *results.Result, width int) error {
	var b strings.Builder
	if k := r.Run.TimeCompression; k != nil {
		writeWrapped(&b, "", compressed(*k), width)
		b.WriteByte('\n')
	}
	for i, g := range gridsOf(r) {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintln(&b, g.title())
		lines := g.lines(wideHeaders, fixed, "  ")
		if width > 0 && utf8.RuneCountInString(lines[0]) > width {
			lines = g.lines(narrowHeaders, short, " ")
		}
		b.WriteString(strings.Join(lines, "\n") + "\n")
		notes := &once{}
		for _, s := range g.stages {
			if note := noteOf(s, notes); note != "" {
				note += notes.example(s) // unlike report.md, the terminal shows no table of errors
				writeWrapped(&b, "! ", fmt.Sprintf("%s: %s", s.Load, note), width)
			}
		}
		for _, line := range g.conclusions() {
			writeWrapped(&b, "", line, width)
		}
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
	_, err := io.WriteString(w, b.String())
	return err
}

// writeWrapped writes text after a mark, wrapped between words to width columns; 0 means any width.
func writeWrapped(b *strings.Builder, mark, text string, width int) {
	indent := strings.Repeat(" ", len(mark))
	line := mark
	for i, word := range strings.Fields(text) {
		if i > 0 && width > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			b.WriteString(line + "\n")
			line = indent + word
			continue
		}
		if i > 0 {
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
}

// compressed returns words that say that the run was a simulation, and that its times are not those of its plan.
func compressed(k float64) string {
	if k == 1 {
		return "SIMULATION: simulated engines in place of the plan's endpoints, at the plan's own pace."
	}
	return fmt.Sprintf("SIMULATION with time compressed %s times: rates are so many times higher, times so many times shorter than the plan's.", shortest(k))
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

// lines returns the lines of a table: header lines, then one line per stage, all right-aligned and equally long.
func (g *grid) lines(headers [][]string, format func(*float64) string, gap string) []string {
	height := len(headers[0])
	if !g.hasGoodput() {
		headers = headers[:len(headers)-1]
	}
	columns := make([][]string, 1+len(headers))
	columns[0] = make([]string, height)
	columns[0][height-1] = g.loadHeader()
	for i, h := range headers {
		columns[i+1] = append([]string{}, h...)
	}
	for _, s := range g.stages {
		load := loadCell(s)
		if !strings.HasSuffix(load, "!") {
			load += "  " // to align the numbers with those that have a mark
		}
		columns[0] = append(columns[0], load)
		for i, v := range g.valuesOf(s) {
			columns[i+1] = append(columns[i+1], format(v))
		}
	}
	return joined(columns, gap)
}

// joined joins columns side by side, right-aligned.
func joined(columns [][]string, gap string) []string {
	lines := make([]string, len(columns[0]))
	for i, column := range columns {
		width := 0
		for _, cell := range column {
			width = max(width, utf8.RuneCountInString(cell))
		}
		for row, cell := range column {
			if i > 0 {
				lines[row] += gap
			}
			lines[row] += fmt.Sprintf("%*s", width, cell)
		}
	}
	return lines
}
