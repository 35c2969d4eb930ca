package spatecmd

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/internal/cli/settings"
	"github.com/spate-load/spate/plans"
)

// flagWords are the words that flags other than settings.Choice accept, by the flag's name.
var flagWords = map[string][]string{
	"api":              registry.Names(),
	"arrival":          {"poisson", "constant"},
	"split":            {"random", "in_turn"},
	"records":          {"parquet", "jsonl", "none"},
	"output":           {"table", "json"},
	"log-level":        {"debug", "info", "warn", "error"},
	"exact-output":     treatments,
	"continuous-usage": treatments,
	"token-ids":        treatments,
	"role":             {"first-token", "at-once", "none"},
	"deliver":          {"as-produced", "one-write", "one-frame", "two-frames", "json-body"},
	"http":             {"1.1", "2", "any"},
	"simulate":         {"1", "10", "20"},
}

var treatments = []string{"honoured", "ignored", "refused"}

// completeValues enables shell completion of flag values for a command and all below it, and of arguments for those
// that take plans.
func completeValues(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if words := wordsOf(f); len(words) > 0 {
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

func wordsOf(f *pflag.Flag) []string {
	if choice, is := f.Value.(*settings.Choice); is {
		return choice.Words()
	}
	return flagWords[f.Name]
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
