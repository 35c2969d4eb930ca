// Package resultscmd has the commands about results: report, compare, history, export.
package resultscmd

import (
	_ "embed"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/plancmd"
	"github.com/spate-load/spate/internal/docs"
	"github.com/spate-load/spate/report"
)

//go:embed help.txt
var help string

// manual has the words of the commands.
var manual = command.Manual(strings.ReplaceAll(help, "DOCS/", docs.URL("", "")))

// NewReport makes `spate report`.
func NewReport() *cobra.Command {
	f := &reportFlags{}
	return manual.New("report", cobra.ExactArgs(1), f.run, f)
}

// reportFlags are the flags of `spate report`.
type reportFlags struct {
	Layout     report.VLLMLayout `flag:"vllm-layout" default:"0.26" oneof:"0.26, 0.8" help:"layout of vllm.txt, by version of vLLM: 0.26, or 0.8 as older reports show it"`
	Salvage    bool              `flag:"salvage" help:"make files from the intact part of a damaged ledger, in DIR/salvaged"`
	Thresholds []string          `flag:"threshold" typed:"only" commas:"kept" help:"add a <condition> that all stages must meet, such as \"ttft_ms.p99 < 500\"; may be repeated"`
	Baseline   string            `flag:"baseline" typed:"only" help:"earlier <run> that thresholds compare with: its directory or its results.json"`
	Printed    printing
}

// run checks the flags, makes the files and prints the tables.
func (f *reportFlags) run(cmd *cobra.Command, args []string) error {
	dir := args[0]
	if err := f.Printed.check(); err != nil {
		return err
	}
	options := report.Options{VLLMLayout: f.Layout, Thresholds: f.Thresholds}
	if err := plancmd.CheckThresholds(f.Thresholds); err != nil {
		return command.BadInput(err)
	}
	if err := f.keepBaseline(dir); err != nil {
		return err
	}
	if f.Salvage {
		return salvage(cmd.OutOrStdout(), cmd.ErrOrStderr(), dir, options, &f.Printed)
	}
	return writeReport(cmd.OutOrStdout(), cmd.ErrOrStderr(), dir, options, &f.Printed)
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
