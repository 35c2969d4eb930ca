package words

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable replaces with blanks what could control a terminal, change the direction of text, or end a line, in words
// that come from plans and servers. It drops variation selectors, of whose width terminals have different ideas.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Variation_Selector, r):
			return -1
		case !unicode.IsPrint(r):
			return ' '
		}
		return r
	}, text)
}

// Wrap breaks text between words into lines of at most width columns. A longer word gets its own line. 0: no limit.
func Wrap(text string, width int) []string {
	if width <= 0 {
		return []string{text}
	}
	var lines []string
	for word := range strings.FieldsSeq(text) {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}
