// Package resultscmd has the commands about results that are on this machine: report, export.
package resultscmd

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/report"
)

// NewReport makes `spate report`.
func NewReport() *cobra.Command {
	var layout string
	var salvaging bool
	printed := &printing{}
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "Write a run directory's files again, from its ledger",
		Long: `Write all derived files of a run directory again, from its ledger alone (results.json,
report.html, report.md, vllm.txt, histograms.hlog, request rows), byte for byte the same as before,
and print the tables.

--format prints the whole report in another form, and --table one table of it, such as the targets
side by side, or what vLLM's, GuideLLM's or AIPerf's benchmark would print, by their definitions.

All of the ledger is checked first. If it is damaged, nothing is written, and the error says what
is lost: by stage, agent and window if possible. --salvage makes a ledger and files from what is
intact, in DIR/salvaged; their result is incomplete and says what is lost.`,
		Example: `  spate report runs/quickstart-20260329
  spate report runs/today --table targets
  spate report runs/today --table vllm --format markdown
  spate report runs/today --format csv > stages.csv`,
		Args: command.Arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := printed.check(); err != nil {
				return err
			}
			options := report.Options{VLLMLayout: report.VLLMLayout(layout)}
			if !slices.Contains(report.VLLMLayouts, options.VLLMLayout) {
				return command.BadInputf("--vllm-layout %q is not known: use one of %v", layout, report.VLLMLayouts)
			}
			if salvaging {
				return salvage(cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], options, printed)
			}
			return writeReport(cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], options, printed)
		},
	}
	cmd.Flags().StringVar(&layout, "vllm-layout", string(report.VLLM026),
		"layout of vllm.txt, by version of vLLM: 0.26, or 0.8 as older reports show it")
	cmd.Flags().BoolVar(&salvaging, "salvage", false,
		"make files from the intact part of a damaged ledger, in DIR/salvaged")
	printed.addFlags(cmd.Flags())
	return cmd
}
