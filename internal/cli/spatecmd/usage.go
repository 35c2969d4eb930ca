package spatecmd

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroup is a group of a command's flags that belong together.
type flagGroup struct {
	title string
	flags *pflag.FlagSet
}

// group makes an empty group of flags, which keeps the order in which flags are added.
func group(title string) flagGroup {
	flags := pflag.NewFlagSet(title, pflag.ContinueOnError)
	flags.SortFlags = false
	return flagGroup{title, flags}
}

// hideEmptyLists keeps empty lists of numbers out of the usage text as defaults. pflag does the same for other lists.
func hideEmptyLists(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if t := f.Value.Type(); f.DefValue == "[]" && (t == "uintSlice" || t == "float64Slice") {
			f.DefValue = ""
		}
	})
}

// setGroups gives a command the flags of all groups, and a usage text that shows them group by group.
func setGroups(cmd *cobra.Command, groups ...flagGroup) {
	for _, g := range groups {
		hideEmptyLists(g.flags)
		cmd.Flags().AddFlagSet(g.flags)
	}
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		w := cmd.OutOrStderr()
		fmt.Fprintf(w, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
		for _, g := range groups {
			fmt.Fprintf(w, "\n%s:\n%s", g.title, g.flags.FlagUsages())
		}
		fmt.Fprintf(w, "\nOther flags:\n%s", cmd.InheritedFlags().FlagUsages())
		return nil
	})
}
