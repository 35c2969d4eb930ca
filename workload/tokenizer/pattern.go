package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// pattern is what a part looks for: a text or a regular expression. Expressions look ahead, which Go's own cannot.
type pattern struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

// match is the place of a match in a text, in bytes.
type match struct{ start, stop int }

// finder finds all matches in a text, from left to right. None is empty.
type finder func(text string) []match

// finder makes the finder of a pattern.
func (p pattern) finder() (finder, error) {
	switch {
	case p.String != nil && *p.String != "":
		return func(text string) []match { return findText(text, *p.String) }, nil
	case p.Regex != nil:
		return newExpression(*p.Regex)
	}
	return nil, errors.New("a pattern is neither a String nor a Regex")
}

func findText(text, wanted string) (all []match) {
	for from := 0; ; {
		i := strings.Index(text[from:], wanted)
		if i < 0 {
			return all
		}
		all = append(all, match{from + i, from + i + len(wanted)})
		from += i + len(wanted)
	}
}

// newExpression makes the finder of a regular expression. In the files' dialect ^ and $ match at lines.
func newExpression(expression string) (finder, error) {
	re, err := regexp2.Compile(expression, regexp2.Multiline)
	if err != nil {
		return nil, fmt.Errorf("its pattern %q is not understood here (%w): set the target's tokenizer to server or usage", expression, err)
	}
	return func(text string) []match { return findExpression(re, text) }, nil
}

// findExpression counts in runes, as the library does, and gives out bytes.
func findExpression(re *regexp2.Regexp, text string) (all []match) {
	runes := []rune(text)
	at := byteOffsets(text, len(runes))
	m, err := re.FindRunesMatch(runes)
	for ; err == nil && m != nil; m, err = re.FindNextMatch(m) {
		if m.Length > 0 {
			all = append(all, match{at[m.Index], at[m.Index+m.Length]})
		}
	}
	if err != nil {
		panic(err) // only of a time limit, and there is none
	}
	return all
}

// byteOffsets returns where each rune of a text begins, and where the text ends.
func byteOffsets(text string, runes int) []int {
	at := make([]int, 0, runes+1)
	for i := 0; i < len(text); {
		at = append(at, i)
		_, size := utf8.DecodeRuneInString(text[i:])
		i += size
	}
	return append(at, len(text))
}
