// Package words formats numbers, spans of time, lists of names and lines as people read them, and finds the name that a
// person probably meant.
package words

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/spate-load/spate/internal/lists"
)

// Shorten joins at most n names.
func Shorten(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

// Count formats a number with its noun.
func Count(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Thousands(n) + " " + noun + "s"
}

// Bytes formats a size.
func Bytes[T int64 | uint64](n T) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// Thousands formats a number with commas.
func Thousands(n uint64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Cut shortens text to less than a terminal's width, so that it stays on one line.
func Cut(text string, width int) string {
	if width > 2 && utf8.RuneCountInString(text) >= width {
		return string([]rune(text)[:width-2]) + "…"
	}
	return text
}

// Span formats a time in seconds: 33.3s, 1m40s, 2h5m.
func Span(seconds float64) string {
	return Duration(time.Duration(seconds * float64(time.Second)).Round(100 * time.Millisecond))
}

// Duration formats a duration as 1m rather than 1m0s.
func Duration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Whole formats a number rounded to an integer.
func Whole(v float64) string { return Thousands(uint64(v + 0.5)) }

// Millis formats milliseconds with two decimals below 10, one below 100 and else none.
func Millis(ms float64) string {
	switch {
	case ms < 10:
		return fmt.Sprintf("%.2f", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f", ms)
	}
	return Thousands(uint64(ms + 0.5))
}

// AppendOnce appends a text if the list does not have it.
func AppendOnce(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// LastLine returns the last line of a text that has any words.
func LastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

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

// Joined is those parts that are not empty, with a separator between them.
func Joined(separator string, parts ...string) string {
	return strings.Join(lists.Where(parts, func(s string) bool { return s != "" }), separator)
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

// Nearest returns the one of names that is so similar to an unknown name that it is probably meant, or "". If none is
// similar, it returns the nearest one that contains the unknown name or is contained in it.
func Nearest(name string, names []string) string {
	if len(names) == 0 || len(name) >= longest {
		return ""
	}
	nearer := func(a, b string) int { return distance(name, a) - distance(name, b) }
	if best := slices.MinFunc(names, nearer); distance(name, best) <= max(2, len(best)/3) {
		return best
	}
	apart := func(known string) bool { return !overlap(name, known) }
	if within := slices.DeleteFunc(slices.Clone(names), apart); len(within) > 0 {
		return slices.MinFunc(within, nearer)
	}
	return ""
}

// Alike reports whether two names differ in at most one letter.
func Alike(a, b string) bool { return a != "" && b != "" && distance(a, b) <= 1 }

// overlap reports whether one of two names contains the other, of at least 3 letters: two are in many by chance.
func overlap(a, b string) bool {
	a, b = plain(a), plain(b)
	return min(len(a), len(b)) >= 3 && (strings.Contains(a, b) || strings.Contains(b, a))
}

// distance counts the insertions, deletions and replacements from a to b. It ignores case, dashes and underscores, so
// that "drainTimeout" matches "drain_timeout".
func distance(a, b string) int {
	a, b = plain(a), plain(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// longest is the length in bytes from which no name is a misspelt field.
const longest = 64

// plain also shortens: only names of about a field's length matter, and a key may be megabytes long.
func plain(name string) string {
	name = name[:min(len(name), longest)]
	return strings.ToLower(joiners.Replace(name))
}

var joiners = strings.NewReplacer("_", "", "-", "")

// Message puts the message in place of a server's answer in JSON, which may be cut off.
func Message(text string) string {
	at, end := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if at < 0 {
		return text
	}
	if end < at || !gjson.Valid(text[at:end+1]) {
		end = len(text) - 1
	}
	for _, path := range []string{"error.message", "message", "detail", "error"} {
		if m := gjson.Get(text[at:], path); m.Type == gjson.String {
			return text[:at] + strings.TrimSuffix(m.String(), ".") + text[end+1:]
		}
	}
	return text
}
