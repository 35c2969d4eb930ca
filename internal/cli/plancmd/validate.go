package plancmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/plans"
)

func newPlanValidate() *cobra.Command {
	source := &SourceFlags{}
	return manual.New("validate", cobra.MinimumNArgs(1), func(cmd *cobra.Command, args []string) error {
		return validateAll(cmd, source, args)
	}, source)
}

// validateAll checks plans one after another, and reports on each as soon as it is checked.
func validateAll(cmd *cobra.Command, source *SourceFlags, paths []string) error {
	var failed error
	for _, path := range paths {
		err := validate(cmd, source, path)
		if command.Stopped(err) {
			return err
		}
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "%v\n", err)
			failed = command.BadInput(command.ErrPrinted)
		}
	}
	return failed
}

func validate(cmd *cobra.Command, source *SourceFlags, path string) error {
	plan, err := source.Read(cmd.InOrStdin(), path)
	if err != nil {
		return err
	}
	resources, err := Gather(cmd.Context(), plan, command.DatasetDir(), cmd.ErrOrStderr(), false)
	if err != nil {
		return err
	}
	if _, err := WithRows(plan, resources); err != nil {
		return err
	}
	text := plans.StageWords(plan)
	if words := machineWords(plan); words != "" {
		text += "; " + words
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: ok, %s\n", path, text)
	terminal.Caution(cmd.ErrOrStderr(), plan)
	return nil
}
