package spatecmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/internal/cli/settings"
)

func newValidate() *cobra.Command {
	source := &sourceFlags{}
	cmd := &cobra.Command{
		Use:   "validate PLAN.yaml...",
		Short: "Check plans without running them",
		Long: `Check plans: every mistake is printed with file, line and column. Secrets that a plan refers to are looked up as well, and the files of its
workloads are read to their end.`,
		Example: "  spate validate plan.yaml\n  spate validate plans/*.yaml",
		Args:    arguments(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return validateAll(cmd, source, args)
		},
	}
	source.add(cmd.Flags())
	return cmd
}

// validateAll checks plans one after another, and reports on each as soon as it is checked.
func validateAll(cmd *cobra.Command, source *sourceFlags, paths []string) error {
	var failed error
	for _, path := range paths {
		err := validate(cmd, source, path)
		if stopped(err) {
			return err
		}
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "%v\n", err)
			failed = badInput(errAlreadySaid)
		}
	}
	return failed
}

func validate(cmd *cobra.Command, source *sourceFlags, path string) error {
	plan, err := source.read(cmd.InOrStdin(), path)
	if err != nil {
		return err
	}
	if _, err := gather(cmd.Context(), plan, settings.DatasetDir(), cmd.ErrOrStderr(), false); err != nil {
		return err
	}
	text := stageWords(plan)
	if words := machineWords(plan); words != "" {
		text += "; " + words
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: ok, %s\n", path, text)
	caution(cmd.ErrOrStderr(), plan)
	return nil
}
