package spatecmd

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// Every flag of an example exists.
func TestExamplesNameTheFlagsThereAre(t *testing.T) {
	root := newRoot("v")
	flag := regexp.MustCompile(`(?:^| )--([a-z-]+)`)
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		for line := range strings.SplitSeq(regexp.MustCompile(`'[^']*'|"[^"]*"`).ReplaceAllString(cmd.Example, ""), "\n") {
			words := strings.Fields(strings.Replace(line, "spate-", "spate ", 1))
			if len(words) == 0 || words[0] != "spate" {
				continue
			}
			of, _, err := root.Find(words[1:])
			if err != nil {
				t.Errorf("%s: %s: %v", cmd.CommandPath(), line, err)
				continue
			}
			for _, match := range flag.FindAllStringSubmatch(line, -1) {
				if of.Flags().Lookup(match[1]) == nil && of.InheritedFlags().Lookup(match[1]) == nil {
					t.Errorf("%s: %s: there is no --%s", cmd.CommandPath(), line, match[1])
				}
			}
		}
		for _, c := range cmd.Commands() {
			check(c)
		}
	}
	check(root)
}

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
