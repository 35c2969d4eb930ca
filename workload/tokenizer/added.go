package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// added is a token that is searched for in the text before the model sees the text.
type added struct {
	ID         uint32 `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only if no letter, digit or underscore is next to it
	LStrip     bool   `json:"lstrip"`      // takes the white space in front
	RStrip     bool   `json:"rstrip"`      // takes the white space behind
	Normalized bool   `json:"normalized"`  // searched for after normalization
}

// catalog holds added tokens by the first byte of their content.
type catalog [256][]added

// newCatalogs returns the tokens to search for before and after normalization.
func newCatalogs(all []added, normalize normalizer) (raw, cooked *catalog) {
	raw, cooked = new(catalog), new(catalog)
	for _, a := range all {
		of := raw
		if a.Normalized {
			of, a.Content = cooked, normalize(a.Content)
		}
		if a.Content != "" {
			of[a.Content[0]] = append(of[a.Content[0]], a)
		}
	}
	return raw, cooked
}

// cut calls do for each added token of a text and for the text between them. If several tokens start at the same place,
// the longest one wins.
func (c *catalog) cut(text string, do func(part string, id uint32, token bool)) {
	from := 0 // start of the text not yet passed to do
	for i := 0; i < len(text); {
		a, ok := c.at(text, i)
		if !ok {
			i++
			continue
		}
		start, stop := a.span(text, i, from)
		if start > from {
			do(text[from:start], 0, false)
		}
		do(text[start:stop], a.ID, true)
		from, i = stop, stop
	}
	if from < len(text) {
		do(text[from:], 0, false)
	}
}

// at returns the longest token that starts at a place.
func (c *catalog) at(text string, i int) (longest added, ok bool) {
	for _, a := range c[text[i]] {
		if len(a.Content) > len(longest.Content) && strings.HasPrefix(text[i:], a.Content) {
			longest, ok = a, true
		}
	}
	if ok && longest.SingleWord {
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[i+len(longest.Content):])
		ok = !isWord(before) && !isWord(after)
	}
	return longest, ok
}

// span returns the range of text that a token at place i covers. The range starts at from or later.
func (a *added) span(text string, i, from int) (start, stop int) {
	start, stop = i, i+len(a.Content)
	if a.LStrip {
		start = max(from, len(strings.TrimRightFunc(text[:i], unicode.IsSpace)))
	}
	if a.RStrip {
		stop = len(text) - len(strings.TrimLeftFunc(text[stop:], unicode.IsSpace))
	}
	return start, stop
}

// isWord reports whether a character is a word character of Unicode's regular expressions (UTS 18, annex C: \w).
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic,
		unicode.Join_Control)
}
