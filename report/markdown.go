package report

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/report/headline"
	"github.com/spate-load/spate/report/tables"
)

// writeMarkdown writes report.md.
func writeMarkdown(w io.Writer, r *results.Result) error {
	var b strings.Builder
	k := r.Run.TimeCompression
	r = results.InPlanTime(r)
	writeHead(&b, r, k)
	details, err := detailsOf(r)
	if err != nil {
		return err
	}
	slowest := table.NewSection("Slowest requests", tables.Slowest(r).Blocks()...)
	for _, s := range slices.Concat([]table.Section{thresholdsSection(r)}, lists.Each(gridsOf(r), (*grid).section),
		details, []table.Section{slowest}) {
		s.Markdown(&b)
	}
	_, err = io.WriteString(w, printable(b.String()))
	return err
}

// detailsOf returns the sections after the thresholds and the tables of numbers.
func detailsOf(r *results.Result) ([]table.Section, error) {
	targets, err := sideBySide(r, "Targets side by side", tables.Targets)
	searches, err2 := sideBySide(r, "Answers of searches side by side", tables.Searches)
	of := func(title string) table.Section { return section(title, r.Stages) }
	return []table.Section{
		searches, seriesSection("The best target", tables.Choices(r)),
		seriesSection("Throughput against latency", tables.Frontiers(r)), targets, of("Parts of mixtures"),
		trustSection(r.Stages), of("Requests"), of("Rates of open loops"), of("First text, reasoning and answers"),
		of("Images"), of("How answers ended"), of("Tool calls and answers in a form"), of("Sessions"), of("Turns of sessions"),
		of("Errors"), of("Sequence lengths"), of("Targets and prompts"), of("Regions"),
		of("Connections by region and endpoint"), of("Client minus server"), of("Servers: their metrics"), of("Inside the engines"), of("GPUs"), of("Start"),
		table.NewSection("Agents", table.Block{Table: Agents(r)}),
	}, errors.Join(err, err2)
}

// sideBySide returns a table of several targets. It is empty if there is only one.
func sideBySide(
	r *results.Result, title string, of func(*results.Result, string) (*table.Table, error),
) (table.Section, error) {
	if len(tables.TargetNames(r)) < 2 {
		return table.Section{}, nil
	}
	t, err := of(r, "")
	if err != nil || len(t.Rows) == 0 {
		return table.Section{}, err
	}
	return table.NewSection(title, t.Blocks()...), nil
}

// seriesSection returns a table of what series found, if there are any.
func seriesSection(title string, t *table.Table) table.Section {
	if len(t.Rows) == 0 {
		return table.Section{}
	}
	return table.NewSection(title, append(t.Blocks(),
		table.Text("Throughput is that of the steady part of each stage, where it is known: ramp-up and drain, which "+
			"the tables of targets include, do not lower it."))...)
}

// writeHead writes the answer, which run it is, what a reader asks next, and before that whether the result is partial,
// and by how much the run compressed time. Nil: the run was not a simulation.
func writeHead(b *strings.Builder, r *results.Result, compression *float64) {
	err := sectionTemplates.ExecuteTemplate(b, "head", map[string]any{"Run": r.Run, "Answer": r.Headline.Lines(),
		"Compression": compression, "Facts": headline.Facts(r)})
	if err != nil {
		panic("report: the template does not fit: " + err.Error())
	}
}

// section returns the table of numbers of one target and workload.
func (g *grid) section() table.Section {
	var rows [][]string
	var remarks []table.Block
	notes := &once{}
	for _, of := range g.rows() {
		cells := lists.Each(of.values, func(v marked) string { return markedText(v.value, v.mark) })
		rows = append(rows, append([]string{of.load}, cells...))
	}
	for _, s := range g.stages {
		if note := noteOf(s, notes); note != "" {
			remarks = append(remarks, table.Block{Note: fmt.Sprintf("%s: %s", s.Load, note)})
		}
	}
	remarks = append(remarks, table.Notes(g.fewNotes())...)
	for _, line := range g.conclusions() {
		remarks = append(remarks, table.Text("Result: %s", line))
	}
	headers := append([]string{g.loadHeader()}, lists.Each(g.columns(), func(c column) string { return c.long })...)
	return table.NewSection(g.title(), append([]table.Block{table.Texts(headers, rows)}, remarks...)...)
}

// stageName returns the name of a stage in tables. People count stages from 1, as messages do.
func stageName(s results.StageResult) string {
	return fmt.Sprintf("%d: %s, %s, %s", s.Index+1, s.Target, s.Workload, s.Load)
}
