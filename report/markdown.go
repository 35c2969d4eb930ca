package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
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
	for _, s := range slices.Concat([]table.Section{thresholdsSection(r)}, gridSections(r), details) {
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
		of("Errors"), of("Sequence lengths"), preparationsSection(r.Stages), of("Regions"), pathsSection(r),
		accountsSection(r.Stages), serversSection(r.Stages), of("Inside the engines"), of("GPUs"), of("Start"),
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
	if err != nil {
		return table.Section{}, err
	}
	if len(t.Rows) == 0 {
		return table.Section{}, nil
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

// writeHead writes the answer, which run it is, and before that whether the result is partial, and by how much the run
// compressed time. Nil: the run was not a simulation.
func writeHead(b *strings.Builder, r *results.Result, compression *float64) {
	run := r.Run
	fmt.Fprintf(b, "# Run %s\n\n", run.ID)
	for _, line := range r.Headline.Lines() {
		fmt.Fprintf(b, "%s\n\n", table.Escape(line))
	}
	if !run.Complete {
		b.WriteString("> **PARTIAL RESULT.** Something is missing:\n>\n")
		for _, reason := range run.Missing {
			fmt.Fprintf(b, "> - %s\n", table.Escape(reason))
		}
		b.WriteByte('\n')
	}
	if k := compression; k != nil {
		fmt.Fprintf(b, "> **%s**\n\n", compressed(*k))
	}
	fmt.Fprintf(b, "- Plan: %s, seed %s\n", table.Escape(text(run.Plan)), whole(run.Seed))
	fmt.Fprintf(b, "- Start: %s, end: %s\n", text(run.BeginTime), text(run.EndTime))
	fmt.Fprintf(b, "- Outcome: %s\n", table.Escape(text(run.Outcome)))
	fmt.Fprintf(b, "- Stages planned: %d, agents: %d\n", run.StagesPlanned, len(run.Agents))
	if run.Restarts > 0 {
		fmt.Fprintf(b, "- The coordinator was restarted during the run: %s\n", times(run.Restarts))
	}
	fmt.Fprintf(b, "- Version: %s\n", cmp.Or(run.Version, unknown))
}

// gridSections returns the tables of numbers, each of one target and workload.
func gridSections(r *results.Result) (list []table.Section) {
	return lists.Each(gridsOf(r), (*grid).section)
}

func (g *grid) section() table.Section {
	var rows [][]string
	var remarks []table.Block
	notes := &once{}
	for _, of := range g.rows() {
		row := []string{of.load}
		for _, v := range of.values {
			row = append(row, markedText(v.value, v.mark))
		}
		rows = append(rows, row)
	}
	for _, s := range g.stages {
		if note := noteOf(s, notes); note != "" {
			remarks = append(remarks, table.Block{Note: fmt.Sprintf("%s: %s", s.Load, note)})
		}
	}
	for _, note := range g.fewNotes() {
		remarks = append(remarks, table.Block{Note: note})
	}
	for _, line := range g.conclusions() {
		remarks = append(remarks, table.Text("Result: %s", line))
	}
	headers := []string{g.loadHeader()}
	for _, c := range g.columns() {
		headers = append(headers, c.long)
	}
	return table.NewSection(g.title(), append([]table.Block{table.Texts(headers, rows)}, remarks...)...)
}

// stageName returns the name of a stage in tables. People count stages from 1, as messages do.
func stageName(s results.StageResult) string {
	return fmt.Sprintf("%d: %s, %s, %s", s.Index+1, s.Target, s.Workload, s.Load)
}

// preparationsSection returns what was found out about each target before load was sent. Equal findings of several
// stages, and equal notes, appear once.
func preparationsSection(stages []results.StageResult) table.Section {
	var rows [][]string
	var notes []string
	for _, s := range stages {
		for _, p := range s.Preparations {
			row := []string{
				s.Target, s.Workload, cmp.Or(p.Server, unknown), p.Lengths, whole(p.TemplateTokens), exactness(p),
				tables.Yes(p.RunningUsage), whole(p.MaxModelTokens), fmt.Sprint(p.Requests),
			}
			if !slices.ContainsFunc(rows, func(other []string) bool { return slices.Equal(other, row) }) {
				rows = append(rows, row)
			}
			for _, note := range p.Notes {
				notes = words.AppendOnce(notes, s.Target+": "+note)
			}
		}
	}
	return table.NewSection("Targets and prompts", table.Texts([]string{
		"Target", "Workload", "Server", "Prompt lengths by", "Template tokens", "Exact output asked", "Running usage",
		"Model's limit (tokens)", "Preparation requests",
	}, rows), table.List(notes))
}

// exactness returns whether requests asked for outputs of exact length, and how it was found out whether the server
// supports that.
func exactness(p results.Preparation) string {
	if p.ExactOutputBy == nil {
		return tables.Yes(p.ExactOutput)
	}
	return fmt.Sprintf("%s (%s)", tables.Yes(p.ExactOutput), *p.ExactOutputBy)
}
