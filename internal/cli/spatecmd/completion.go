package spatecmd

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/plans"
)

// completeValues enables shell completion of flag values for a command and all below it, and of arguments for those
// that take plans.
func completeValues(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if words := command.Words(f); len(words) > 0 {
			// This fails only for a flag that already has completion or does not exist. Neither can happen.
			_ = cmd.RegisterFlagCompletionFunc(f.Name,
				cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	if strings.Contains(cmd.Use, "PLAN.yaml") {
		cmd.ValidArgsFunction = completePlans
	}
	for _, sub := range cmd.Commands() {
		completeValues(sub)
	}
}

// completePlans offers the plans that ship with Spate. If none starts with what was typed, the shell offers files.
func completePlans(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var found []cobra.Completion
	for _, name := range plans.Shipped() {
		if strings.HasPrefix(name, typed) {
			found = append(found, name)
		}
	}
	return found, cobra.ShellCompDirectiveDefault
}
