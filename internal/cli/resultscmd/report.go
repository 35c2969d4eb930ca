// Package resultscmd has the commands about results: report, compare, history, export.
package resultscmd

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/plancmd"
	"github.com/spate-load/spate/report"
)

// NewReport makes `spate report`.
func NewReport() *cobra.Command {
	f := &reportFlags{}
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "Write a run directory's files again, from its ledger",
		Long: `Write all derived files of a run directory again, from its ledger alone (results.json,
report.html, report.md, vllm.txt, histograms.hlog, request rows), byte for byte the same as before,
and print the tables.

--format prints the whole report in another form, and --table one table of it, such as the targets
side by side, or what vLLM's, GuideLLM's or AIPerf's benchmark would print, by their definitions.

If the ledger is damaged, nothing is written, and the error says what is lost; --salvage makes a
ledger and files from what is intact, in DIR/salvaged.

The exit code is 5 if a threshold failed, of the plan or of --threshold. Conditions with the word
"baseline" compare with --baseline, or with the baseline that the run was given.`,
		Example: `  spate report runs/quickstart-20260329
  spate report runs/today --table targets
  spate report runs/today --table vllm --format markdown
  spate report runs/today --format csv > stages.csv
  spate report runs/today --threshold "ttft_ms.p99 < 500" --threshold "verdict = VALID"
  spate report runs/today --baseline runs/yesterday --threshold "tpot_ms.mean <= baseline * 1.03"`,
		Args: command.Arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	command.Declare(cmd.Flags(), f)
	return cmd
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
func (f *reportFlags) run(cmd *cobra.Command, dir string) error {
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
