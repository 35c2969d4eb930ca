package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Group is a group of flags in --help.
type Group struct {
	// Name is what tags of fields call it.
	Name string
	// Title is the line above the flags.
	Title string
}

// helpWidth is the number of columns that help texts have at most.
const helpWidth = 100

// WrapUsage wraps the descriptions of flags in the help of a command and all below it.
func WrapUsage(cmd *cobra.Command) {
	wrapped := fmt.Sprintf(".FlagUsagesWrapped %d", helpWidth)
	cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), ".FlagUsages", wrapped))
}

// SetGroups gives a command a usage text that shows its flags group by group, in the order in which they were declared.
func SetGroups(cmd *cobra.Command, groups ...Group) {
	cmd.Flags().SortFlags = false
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		w := cmd.OutOrStderr()
		fmt.Fprintf(w, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
		for _, g := range groups {
			fmt.Fprintf(w, "\n%s:\n%s", g.Title, flagsOf(cmd, g.Name).FlagUsagesWrapped(helpWidth))
		}
		fmt.Fprintf(w, "\nOther flags:\n%s", cmd.InheritedFlags().FlagUsagesWrapped(helpWidth))
		return nil
	})
}

// flagsOf returns the flags of a command that are in a group.
func flagsOf(cmd *cobra.Command, name string) *pflag.FlagSet {
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	flags.SortFlags = false
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(f.Annotations[group], name) {
			flags.AddFlag(f)
		}
	})
	return flags
}
