package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Choice is the value of a flag that takes one of a few words.
type Choice struct {
	value *string
	of    []string
}

// AddChoice adds a flag that takes one of a few words.
func AddChoice(flags *pflag.FlagSet, value *string, name, usual, usage string, of ...string) {
	*value = usual
	flags.Var(&Choice{value, of}, name, usage)
}

// String returns the word.
func (c *Choice) String() string { return *c.value }

// Type is how --help names the value.
func (c *Choice) Type() string { return "string" }

// Words are those that the flag takes.
func (c *Choice) Words() []string { return slices.Clone(c.of) }

// Set takes a word. The error says which there are.
func (c *Choice) Set(word string) error {
	if !slices.Contains(c.of, word) {
		return fmt.Errorf("want %s", orWords(c.of))
	}
	*c.value = word
	return nil
}

// orWords lists words: "a, b or c".
func orWords(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
