package resultscmd

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/report/tables"
)

// printing is what `spate report` prints. Zero: the tables and the run directory.
type printing struct {
	Format         string `flag:"format" default:"text" oneof:"text, markdown, csv, json, html" help:"<form> of what is printed: text; markdown, json, html (report.md, results.json, report.html); or csv (a row for each stage)"`
	Table          string `flag:"table" oneof:"stages, parts, targets, searches, frontiers, vllm, guidellm, aiperf" help:"print one <table>: stages; parts (of mixtures); targets, searches (targets and answers side by side, with ratios to a baseline); frontiers; or vllm, guidellm, aiperf (what these tools print, by their definitions)"`
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
	switch {
	case p.Table == "" && p.Format == "text":
		return showReport(out, dir, r)
	case p.Table == "" && whole[p.Format] != "":
		return copyFile(out, filepath.Join(dir, whole[p.Format]))
	case p.Table == "vllm" && p.Format == "text":
		return copyFile(out, filepath.Join(dir, "vllm.txt"))
	}
	t, err := p.tableOf(r)
	if err != nil {
		return command.BadInput(err)
	}
	switch p.Format {
	case "markdown":
		return t.Markdown(out)
	case "csv":
		return t.CSV(out)
	case "json":
		return t.JSON(out)
	}
	return t.Text(out, terminal.Width(out))
}

// tableOf makes the table that is asked for.
func (p *printing) tableOf(r *results.Result) (*table.Table, error) {
	r = results.InPlanTime(r)
	switch p.Table {
	case "targets", "searches":
		sideBySide := map[string]func(*results.Result, string) (*table.Table, error){
			"targets": tables.Targets, "searches": tables.Searches}[p.Table]
		t, err := sideBySide(r, p.BaselineTarget)
		if err != nil {
			return nil, fmt.Errorf("--baseline-target: %w", err)
		}
		return p.some(t)
	case "parts":
		return p.some(tables.Parts(r))
	case "frontiers":
		return p.some(tables.Frontiers(r))
	case "vllm":
		return tables.VLLM(r), nil
	case "guidellm":
		return tables.GuideLLM(r), nil
	case "aiperf":
		return tables.AIPerf(r), nil
	}
	return tables.Stages(r), nil
}

// some returns a table that must have rows.
func (p *printing) some(t *table.Table) (*table.Table, error) {
	if len(t.Rows) == 0 {
		return nil, fmt.Errorf("--table %s: the run has none", p.Table)
	}
	return t, nil
}

func copyFile(out io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	defer f.Close() // opened for reading only
	_, err = io.Copy(out, f)
	return err
}
