package spatecmd

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/internal/cli/command"
)

// completed returns what a shell offers after the words.
func completed(t *testing.T, words ...string) []string {
	t.Helper()
	var out bytes.Buffer
	root := newRoot("")
	root.SetOut(&out)
	root.SetErr(&bytes.Buffer{})
	root.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, words...))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[:len(lines)-1] // the last one is the directive
}

func TestCompletionOfValues(t *testing.T) {
	for words, want := range map[string]string{
		"run --fail-on|":      "invalid suspect never",
		"run --records|":      "parquet jsonl none",
		"run --api|":          strings.Join(registry.Names(), " "),
		"simulate --role|":    "first-token at-once none",
		"runs --output|":      "table json",
		"run|quick":           "quickstart",
		"plan show|quick":     "quickstart",
		"plan validate|quick": "quickstart",
		"ver|":                "",
		"|ver":                "verify version",
	} {
		line, typed, _ := strings.Cut(words, "|")
		if got := strings.Join(completed(t, append(strings.Fields(line), typed)...), " "); got != want {
			t.Errorf("%q: %q, want %q", words, got, want)
		}
	}
}

var listed = regexp.MustCompile(`: ([a-z0-9_.-]+(?:, [a-z0-9_.-]+)*),? or ([a-z0-9_.-]+)(?: of both)?(?:;|$|\s\()`)

// Every flag whose help lists the words that it accepts completes them: "keep rows: parquet, jsonl or none".
func TestFlagsThatListWordsCompleteThem(t *testing.T) {
	seen := 0
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			part := listed.FindStringSubmatch(f.Usage)
			if part == nil || f.Value.Type() != "string" {
				return
			}
			seen++
			words := command.Words(f)
			for _, word := range append(strings.Split(part[1], ", "), part[2]) {
				if !slices.Contains(words, word) {
					t.Errorf("%s --%s completes %q, without %q", c.CommandPath(), f.Name, words, word)
				}
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(""))
	if seen < 5 {
		t.Errorf("only %d flags list words", seen)
	}
}
