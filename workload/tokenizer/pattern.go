package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dlclark/regexp2"
)

// pattern is what a part searches for: a text or a regular expression. The expressions use lookahead, which Go's regexp
// lacks.
type pattern struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

// match is the byte range of a match in a text.
type match struct{ start, stop int }

// finder returns all non-empty matches in a text, from left to right.
type finder func(text string) []match

// finder returns the finder of a pattern.
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

// maxSearch is the longest search for one match, which takes microseconds: an expression may make it take forever.
const maxSearch = 2 * time.Second

// slowError is the panic of a finder whose search took longer.
type slowError struct{ error }

// tooSlow makes an error of a search that took too long.
func tooSlow(err *error) {
	fault := recover()
	if slow, ok := fault.(slowError); ok {
		*err = fmt.Errorf("tokenizer: a search by one of its patterns takes longer than %v (%w): set the target's "+
			"tokenizer to server or usage", maxSearch, slow.error)
	} else if fault != nil {
		panic(fault)
	}
}

// newExpression returns the finder of a regular expression. In the files' dialect, ^ and $ match at line boundaries.
func newExpression(expression string) (finder, error) {
	re, err := regexp2.Compile(expression, regexp2.Multiline)
	if err != nil {
		return nil, fmt.Errorf("its pattern %q is not supported (%w): set the target's tokenizer to server or usage",
			expression, err)
	}
	re.MatchTimeout = maxSearch
	return func(text string) []match { return findExpression(re, text) }, nil
}

// findExpression converts the library's rune offsets to byte offsets.
func findExpression(re *regexp2.Regexp, text string) (all []match) {
	runes := []rune(text)
	at := make([]int, 0, len(runes)+1) // the byte offset of each rune, and the length of the text
	for i := range text {
		at = append(at, i)
	}
	at = append(at, len(text))
	m, err := re.FindRunesMatch(runes)
	for ; err == nil && m != nil; m, err = re.FindNextMatch(m) {
		if m.Length > 0 {
			all = append(all, match{at[m.Index], at[m.Index+m.Length]})
		}
	}
	if err != nil {
		panic(slowError{err})
	}
	return all
}
