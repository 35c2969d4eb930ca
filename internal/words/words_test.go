package words

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestSpan(t *testing.T) {
	for seconds, want := range map[float64]string{0: "0s", 33.33: "33.3s", 100: "1m40s", 180: "3m", 7200: "2h",
		7500: "2h5m", 3601: "1h0m1s"} {
		if got := Span(seconds); got != want {
			t.Errorf("span(%v) = %q, want %q", seconds, got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := Thousands(n); got != want {
			t.Errorf("thousands(%d) = %s", n, got)
		}
	}
	if got := Shorten([]string{"a", "b", "c"}, 2); got != "a, b and 1 more" {
		t.Errorf("shorten = %q", got)
	}
}

func TestMillis(t *testing.T) {
	for ms, want := range map[float64]string{0.123: "0.12", 12.34: "12.3", 999.6: "1,000"} {
		if got := Millis(ms); got != want {
			t.Errorf("Millis(%v) = %s", ms, got)
		}
	}
}

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

// A server's answer in JSON is its message, also if it was cut off.
func TestMessage(t *testing.T) {
	for text, want := range map[string]string{
		"no answer": "no answer",
		`http_500: {"error": {"message": "out of memory", "code": 500}}; stopped`: "http_500: out of memory; stopped",
		`http_422: {"detail": "no such model", "more": {"a": 1}, "b`:              "http_422: no such model",
		`http_400: {"code": 7}`: `http_400: {"code": 7}`,
	} {
		if got := Message(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
