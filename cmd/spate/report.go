package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/report"
)

func newReport() *cobra.Command {
	return &cobra.Command{
		Use:   "report DIR",
		Short: "Make a run directory's files anew from its ledger",
		Long: `Make all derived files of a run directory anew from its ledger alone (results.json, report.md, vllm.txt, histograms.hlog, request rows),
byte for byte the same as before, and print the tables.`,
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			result, err := report.Write(args[0])
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
			return nil
		},
	}
}
