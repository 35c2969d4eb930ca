package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/report"
)

func newReport() *cobra.Command {
	var layout string
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "Write a run directory's files again, from its ledger",
		Long: `Write all derived files of a run directory again, from its ledger alone (results.json, report.md, vllm.txt,
histograms.hlog, request rows), byte for byte the same as before, and print the tables.`,
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			options := report.Options{VLLMLayout: report.VLLMLayout(layout)}
			if !slices.Contains(report.VLLMLayouts, options.VLLMLayout) {
				return badInputf("--vllm-layout %q is not known: use one of %v", layout, report.VLLMLayouts)
			}
			result, err := report.Write(args[0], options)
			if result == nil {
				return badInputf("%s is no run directory: %w", args[0], err)
			}
			if err != nil {
				return err
			}
			if err := report.Table(cmd.OutOrStdout(), result, terminalWidth(cmd.OutOrStdout())); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Run directory: %s\n", args[0])
			if result.Run.Outcome == nil {
				complain(cmd, "the run has not ended, so its result is partial; if its command was killed, spate resume "+args[0]+" runs the rest")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&layout, "vllm-layout", string(report.VLLM026),
		"layout of vllm.txt, by version of vLLM: 0.26, or 0.8 as older reports show it")
	return cmd
}
