package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spate-load/spate/internal/words"
)

// Manual has the words of a package's commands: for each of them "# USE", a line that says what it does, and after
// empty lines the whole description, and examples under "Examples:".
type Manual string

// New makes the command of a name, with flags for each of settings as Declare adds them. Errors about arguments say how
// it is used.
func (m Manual) New(
	name string, args cobra.PositionalArgs, run func(*cobra.Command, []string) error, settings ...any,
) *cobra.Command {
	for section := range strings.SplitSeq("\n"+string(m), "\n# ") {
		use, rest, _ := strings.Cut(section, "\n")
		if word, _, _ := strings.Cut(use, " "); word != name {
			continue
		}
		text, examples, _ := strings.Cut(rest, "\nExamples:\n")
		short, long, _ := strings.Cut(text, "\n")
		cmd := &cobra.Command{Use: use, Short: short, Long: strings.TrimSpace(long), RunE: run,
			Example: strings.TrimRight(examples, "\n")}
		if args != nil {
			cmd.Args = Arguments(args)
		}
		for _, s := range settings {
			Declare(cmd.Flags(), s)
		}
		return cmd
	}
	panic("there is no manual of the command " + name) // the first run of the program finds it
}

// ShowHelp is what a command does that only has subcommands.
func ShowHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// helpWidth is the number of columns that help texts have at most.
const helpWidth = 100

// SetUsage gives a command and all below it one form of usage text: flags and subcommands group by group, in the order
// in which they were declared. --help leaves out the flags that few people need, and --help-all does not.
func SetUsage(root *cobra.Command) {
	cobra.EnableCommandSorting = false
	all := new(helpAll)
	root.PersistentFlags().Var(all, "help-all", "")
	f := root.PersistentFlags().Lookup("help-all")
	f.NoOptDefVal, f.Hidden = "true", true
	annotate(f, typed)
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		w := cmd.OutOrStderr()
		fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
		if cmd.HasExample() {
			fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
		}
		listCommands(w, cmd)
		listFlags(w, cmd, bool(*all))
		return nil
	})
}

// helpAll is the value of --help-all, which ends the parsing of flags as --help does.
type helpAll bool

// String returns "".
func (h *helpAll) String() string { return "" }

// Type returns the type's name.
func (h *helpAll) Type() string { return "bool" }

// Set makes cobra print the help.
func (h *helpAll) Set(string) error { *h = true; return pflag.ErrHelp }

// listCommands lists the subcommands by group, and the help topics.
func listCommands(w io.Writer, cmd *cobra.Command) {
	list := func(title string, belongs func(*cobra.Command) bool) {
		for _, c := range cmd.Commands() {
			if !belongs(c) {
				continue
			}
			if title != "" {
				fmt.Fprintf(w, "\n%s:\n", title)
				title = ""
			}
			fmt.Fprintf(w, "  %-*s %s\n", cmd.NamePadding(), c.Name(), c.Short)
		}
	}
	for _, g := range append(cmd.Groups(), &cobra.Group{Title: "Commands"}) {
		list(g.Title, func(c *cobra.Command) bool { return c.IsAvailableCommand() && c.GroupID == g.ID })
	}
	list("Help topics", (*cobra.Command).IsAdditionalHelpTopicCommand)
}

// listFlags lists the flags by group, and then those that have none.
func listFlags(w io.Writer, cmd *cobra.Command, all bool) {
	var titles []string
	groups := map[string]*pflag.FlagSet{}
	left := 0
	add := func(f *pflag.Flag) {
		if annotated(f, rare) && !all {
			left++
			return
		}
		title := strings.Join(f.Annotations[group], "")
		if groups[title] == nil {
			groups[title] = pflag.NewFlagSet(title, pflag.ContinueOnError)
			groups[title].SortFlags = false
			if title != "" {
				titles = append(titles, title)
			}
		}
		groups[title].AddFlag(f)
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	for _, title := range append(titles, "") {
		if groups[title] != nil {
			heading := title
			if title == "" {
				heading = []string{"Flags", "Other flags"}[min(len(titles), 1)]
			}
			fmt.Fprintf(w, "\n%s:\n%s", heading, groups[title].FlagUsagesWrapped(helpWidth))
		}
	}
	if left > 0 {
		fmt.Fprintf(w, "\n%s: %s --help-all\n", words.Count(uint64(left), "more flag"), cmd.CommandPath())
	}
}
