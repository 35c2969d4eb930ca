package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Choice is the value of a flag that accepts one of a few words.
type Choice struct {
	value *string
	of    []string
}

// AddChoice adds a flag that accepts one of the words in of. usual is the default.
func AddChoice(flags *pflag.FlagSet, value *string, name, usual, usage string, of ...string) {
	*value = usual
	flags.Var(&Choice{value, of}, name, usage)
}

// String returns the word.
func (c *Choice) String() string { return *c.value }

// Type returns the name of the value in --help.
func (c *Choice) Type() string { return "string" }

// Words returns the words that the flag accepts.
func (c *Choice) Words() []string { return slices.Clone(c.of) }

// Set sets the word. The error lists the accepted words.
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
