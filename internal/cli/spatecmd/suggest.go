package spatecmd

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/nearest"
)

// newVersion makes a command that prints the same as --version.
func newVersion(version string) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: command.Arguments(cobra.NoArgs),
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), "spate version "+version)
		},
	}
}

// unknownCommand returns an error that suggests a similar command.
func unknownCommand(cmd *cobra.Command, name string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return command.BadInputf("unknown command %q%s\nsee: %s --help", name, meantWords(nearest.To(name, names)),
		cmd.CommandPath())
}

var unknownFlag = regexp.MustCompile(`^unknown flag: --(.+)$`)

// flagError adds a similar flag to an error about an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	hint := ""
	if part := unknownFlag.FindStringSubmatch(err.Error()); part != nil {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		name, _, _ := strings.Cut(part[1], "=")
		if near := nearest.To(name, names); near != "" {
			hint = meantWords("--" + near)
		}
	}
	return command.BadInputf("%w%s\nsee: %s --help", err, hint, cmd.CommandPath())
}

func meantWords(name string) string {
	if name == "" {
		return ""
	}
	return "; did you mean " + name + "?"
}
