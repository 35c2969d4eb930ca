package spatecmd

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// No line of a help text is wider than 100 columns.
func TestHelpIsNotWiderThan100Columns(t *testing.T) {
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		text := cmd.Short + "\n" + cmd.Long + "\n" + cmd.UsageString()
		for line := range strings.SplitSeq(text, "\n") {
			if n := utf8.RuneCountInString(line); n > 100 {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		for _, c := range cmd.Commands() {
			check(c)
		}
	}
	root := newRoot("v")
	root.InitDefaultHelpCmd()
	check(root)
}
