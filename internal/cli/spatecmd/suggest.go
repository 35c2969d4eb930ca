package spatecmd

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/words"
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

var unknownFlag = regexp.MustCompile(`^unknown flag: --(.+)$`)

// flagError adds a similar flag to an error about an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	hint := ""
	if part := unknownFlag.FindStringSubmatch(err.Error()); part != nil {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		name, _, _ := strings.Cut(part[1], "=")
		if near := words.Nearest(name, names); near != "" {
			hint = command.DidYouMean("--" + near)
		}
	}
	return command.BadInputf("%w%s\nsee: %s --help", err, hint, cmd.CommandPath())
}
