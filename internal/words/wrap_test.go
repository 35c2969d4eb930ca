package words

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestWrap: no word is lost, no line is too long unless its only word is, and no line could have held the next word.
func TestWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.StringMatching(`[a-zé]{1,12}`)).Draw(t, "words")
		width := rapid.IntRange(1, 30).Draw(t, "width")
		lines := Wrap(strings.Join(words, " "), width)
		if got := strings.Fields(strings.Join(lines, " ")); strings.Join(got, " ") != strings.Join(words, " ") {
			t.Fatalf("%q", lines)
		}
		for i, line := range lines {
			n := utf8.RuneCountInString(line)
			if n > width && strings.Contains(line, " ") {
				t.Fatalf("%q has %d columns", line, n)
			}
			if i > 0 {
				next, _, _ := strings.Cut(line, " ")
				if utf8.RuneCountInString(lines[i-1])+1+utf8.RuneCountInString(next) <= width {
					t.Fatalf("%q had room for %q", lines[i-1], next)
				}
			}
		}
	})
}
