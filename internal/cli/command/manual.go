package command

import (
	"strings"

	"github.com/spf13/cobra"
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
