// Package resultscmd has the commands about results: report, compare, history, export.
package resultscmd

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/agent/host"
	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/compare/runfiles"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/plancmd"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report"
	"github.com/spate-load/spate/report/page"
	"github.com/spate-load/spate/report/tables"
)

//go:embed help.txt
var help string

// manual has the words of the commands.
var manual = command.Manual(strings.ReplaceAll(help, "DOCS/", words.DocURL("", "")))

// NewReport makes `spate report`.
func NewReport() *cobra.Command {
	f := &reportFlags{}
	return manual.New("report", cobra.ExactArgs(1), f.run, f)
}

// reportFlags are the flags of `spate report`.
type reportFlags struct {
	Thresholds []string `flag:"threshold" typed:"only" commas:"kept" help:"add a <condition> that all stages must meet, such as \"ttft_ms.p99 < 500\"; may be repeated"`
	Baseline   string   `flag:"baseline" typed:"only" help:"earlier <run> that thresholds compare with: its directory or its results.json"`
	Printed    printing
}

// run checks the flags, makes the files and prints the tables.
func (f *reportFlags) run(cmd *cobra.Command, args []string) error {
	host.CollectLess(25) // a run is read piece by piece, and each soon is garbage
	dir := runfiles.Named(args[0])
	if err := f.Printed.check(); err != nil {
		return err
	}
	if err := plancmd.CheckThresholds(f.Thresholds); err != nil {
		return command.BadInput(err)
	}
	if err := f.keepBaseline(dir); err != nil {
		return err
	}
	done := terminal.Reading(cmd.ErrOrStderr())
	result, err := report.Write(dir, report.Options{Thresholds: f.Thresholds})
	done()
	if result == nil {
		return unreadable(dir, err)
	}
	if err == nil {
		err = f.Printed.print(cmd.OutOrStdout(), dir, result)
	}
	if err != nil {
		return err
	}
	if result.Run.Outcome == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "spate: the run has not ended, so its result is partial; if its command was killed, "+
			"spate runs resume %s runs the rest\n", dir)
	}
	if failed := report.FailedThresholds(result); len(failed) > 0 {
		return command.Exit(command.ExitMissed, fmt.Errorf("%s: %s: %s", report.ThresholdWords(result), failed[0].Words(),
			report.ThresholdOutcome(failed[0])))
	}
	return nil
}

// keepBaseline copies the baseline, if one is given, to the run directory.
func (f *reportFlags) keepBaseline(dir string) error {
	if f.Baseline == "" {
		return nil
	}
	baseline, err := report.ReadBaseline(f.Baseline)
	if err != nil {
		return command.BadInputf("--baseline: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, ledger.File)); err != nil {
		return unreadable(dir, err)
	}
	return baseline.Keep(dir)
}

// printing is what `spate report` prints. Zero: the tables and the run directory.
type printing struct {
	Format         string `flag:"format" default:"text" oneof:"text, markdown, csv, json, html" help:"<form> of what is printed: text; markdown, json, html (report.md, results.json, report.html); or csv (a row for each stage)"`
	Table          string `flag:"table" oneof:"stages, parts, targets, searches, choices, frontiers, slowest, vllm, guidellm, aiperf" help:"print one <table>: stages; parts (of mixtures); targets, searches (targets and answers side by side, with ratios to a baseline); choices (who was dropped, and why); frontiers; slowest (requests); or vllm, guidellm, aiperf (what these tools print, by their definitions)"`
	BaselineTarget string `flag:"baseline-target" help:"with --table targets or searches: <name> of the target to compare with (default: the plan's baseline, or its first target)"`
}

// whole are the files that have the whole report in a format.
var whole = map[string]string{"markdown": "report.md", "json": "results.json", "html": "report.html"}

// check refuses flags that do not go together.
func (p *printing) check() error {
	if p.BaselineTarget != "" && p.Table != "targets" && p.Table != "searches" {
		return command.BadInputf("--baseline-target has no effect: give --table targets or --table searches, too")
	}
	if p.Format == "html" && p.Table != "" {
		return command.BadInputf("--format html is the whole report: leave out --table, or use another format")
	}
	return nil
}

// print prints a result, whose files are in dir.
func (p *printing) print(out io.Writer, dir string, r *results.Result) error {
	file := ""
	switch {
	case p.Table == "" && p.Format == "text":
		return showReport(out, dir, r)
	case p.Table == "":
		file = whole[p.Format]
	case p.Table == "vllm" && p.Format == "text":
		file = "vllm.txt"
	}
	if file != "" {
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err == nil {
			_, err = out.Write(content)
		}
		return err
	}
	t, err := p.tableOf(r)
	if err != nil {
		return command.BadInput(err)
	}
	return t.In(p.Format, out, terminal.Width(out))
}

// tableOf makes the table that is asked for.
func (p *printing) tableOf(r *results.Result) (*table.Table, error) {
	r = results.InPlanTime(r)
	sideBySide := map[string]func(*results.Result, string) (*table.Table, error){
		"targets": tables.Targets, "searches": tables.Searches}
	if of := sideBySide[p.Table]; of != nil {
		t, err := of(r, p.BaselineTarget)
		if err != nil {
			return nil, fmt.Errorf("--baseline-target: %w", err)
		}
		return p.some(t)
	}
	of := map[string]func(*results.Result) *table.Table{
		"": tables.Stages, "stages": tables.Stages, "parts": tables.Parts, "frontiers": tables.Frontiers,
		"choices": tables.Choices, "slowest": tables.Slowest,
		"vllm": tables.VLLM, "guidellm": tables.GuideLLM, "aiperf": tables.AIPerf,
	}
	t := of[p.Table](r)
	if slices.Contains([]string{"parts", "frontiers", "choices", "slowest"}, p.Table) {
		return p.some(t)
	}
	return t, nil
}

// some returns a table that must have rows.
func (p *printing) some(t *table.Table) (*table.Table, error) {
	if len(t.Rows) == 0 {
		return nil, fmt.Errorf("--table %s: %s", p.Table, cmp.Or(strings.Join(t.Notes, " "), "the run has none"))
	}
	return t, nil
}

// unreadable says why a run directory's files cannot be made, and what can be done.
func unreadable(dir string, err error) error {
	if errors.Is(err, ledger.ErrDamaged) {
		return fmt.Errorf("%w\nno file was written: restore %s from a copy, or run the plan again", err,
			filepath.Join(dir, ledger.File))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return command.BadInputf("%s is not a run directory: there is no %s in it", dir, ledger.File)
	}
	return command.BadInputf("%s is not a run directory: %w", dir, err)
}

// showReport prints the tables of a result.
func showReport(out io.Writer, dir string, result *results.Result) error {
	if err := report.Table(out, result, terminal.Width(out)); err != nil {
		return err
	}
	fmt.Fprintf(out, "Run directory: %s\n", dir)
	return report.Answer(out, result, terminal.Width(out))
}

// figureFlags are the flags of `spate figure`.
type figureFlags struct {
	Format   string `flag:"format" default:"svg" oneof:"svg, csv, pdf, png" help:"format: svg, csv (its points), pdf, png (three times as fine)"`
	Width    string `flag:"width" default:"3.3in" help:"width in in, cm, mm, pt or px"`
	Workload string `flag:"workload" help:"workload, by its <name>; else the first"`
	Browser  string `flag:"browser" help:"<program> that draws pdf and png (default: Chromium, Chrome or Edge, where one is found)"`
}

// NewFigure makes `spate figure`.
func NewFigure() *cobra.Command {
	f := &figureFlags{}
	return manual.New("figure", cobra.ExactArgs(2), f.run, f)
}

// length is a length, and pixels are how many an inch or other unit has.
var (
	length = regexp.MustCompile(`^([0-9.]+)(in|cm|mm|pt|px)$`)
	pixels = map[string]float64{"in": 96, "cm": 96 / 2.54, "mm": 96 / 25.4, "pt": 96. / 72, "px": 1}
)

// run writes the figure.
func (f *figureFlags) run(cmd *cobra.Command, args []string) error {
	parts := append(length.FindStringSubmatch(f.Width), "", "", "")
	width, _ := strconv.ParseFloat(parts[1], 64)
	if width *= pixels[parts[2]]; width < 150 || width > 4000 {
		return command.BadInputf("--width %q: want a width such as 3.3in, from 150px to 4000px", f.Width)
	}
	if args[1] == page.Card && f.Format != "png" {
		return command.BadInputf("a card is a picture for chats: give --format png, or open report.html#card in a browser")
	}
	var b bytes.Buffer
	figure := page.Figure{Name: args[1], Workload: f.Workload, CSV: f.Format == "csv", Width: width}
	dir := runfiles.Named(args[0])
	err := report.Figure(&b, dir, figure)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ledger.ErrDamaged) {
		return unreadable(dir, err)
	}
	out := b.Bytes()
	if err == nil && (f.Format == "pdf" || f.Format == "png") {
		out, err = f.drawn(cmd.Context(), out)
	}
	if err != nil {
		return command.BadInput(err)
	}
	_, err = cmd.OutOrStdout().Write(out)
	return err
}
