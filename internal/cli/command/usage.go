package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// FlagGroup is a group of a command's flags that belong together.
type FlagGroup struct {
	title string
	Flags *pflag.FlagSet
}

// Group makes an empty group of flags, which keeps the order in which flags are added.
func Group(title string) FlagGroup {
	flags := pflag.NewFlagSet(title, pflag.ContinueOnError)
	flags.SortFlags = false
	return FlagGroup{title, flags}
}

// HideEmptyLists keeps empty lists of numbers out of the usage text as defaults. pflag does the same for other lists.
func HideEmptyLists(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if t := f.Value.Type(); f.DefValue == "[]" && (t == "uintSlice" || t == "float64Slice") {
			f.DefValue = ""
		}
	})
}

// helpWidth is the number of columns that help texts have at most.
const helpWidth = 100

// WrapUsage wraps the descriptions of flags in the help of a command and all below it.
func WrapUsage(cmd *cobra.Command) {
	wrapped := fmt.Sprintf(".FlagUsagesWrapped %d", helpWidth)
	cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), ".FlagUsages", wrapped))
}

// SetGroups gives a command the flags of all groups, and a usage text that shows them group by group.
func SetGroups(cmd *cobra.Command, groups ...FlagGroup) {
	for _, g := range groups {
		HideEmptyLists(g.Flags)
		cmd.Flags().AddFlagSet(g.Flags)
	}
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		w := cmd.OutOrStderr()
		fmt.Fprintf(w, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
		for _, g := range groups {
			fmt.Fprintf(w, "\n%s:\n%s", g.title, g.Flags.FlagUsagesWrapped(helpWidth))
		}
		fmt.Fprintf(w, "\nOther flags:\n%s", cmd.InheritedFlags().FlagUsagesWrapped(helpWidth))
		return nil
	})
}
