package jsonscan

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// repairOracle decodes a text with encoding/json, which replaces what is invalid.
func repairOracle(t *rapid.T, text []byte) string {
	var s string
	if err := json.Unmarshal(slices.Concat([]byte{'"'}, text, []byte{'"'}), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRepair checks that any text of valid pieces decodes to what encoding/json decodes, and is valid UTF-8 without
// lone surrogates.
func TestRepair(t *testing.T) {
	pieces := rapid.SampledFrom([]string{"a", "u", "d", "8", `\\`, `\n`, `\"`, `\/`, `\ud83d`, `\uDE00`, `\ude00`,
		`\u0041`, `\ufffd`, `\uFFFF`, "é", "😀", "\xc3", "\xa9", "\xff"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(pieces, 0, 12).Draw(t, "pieces"), "")
		got := Repair([]byte(text))
		if want := repairOracle(t, []byte(text)); repairOracle(t, got) != want {
			t.Fatalf("%q: %q means %q, want %q", text, got, repairOracle(t, got), want)
		}
		if !utf8.Valid(got) {
			t.Fatalf("%q: %q is not UTF-8", text, got)
		}
		if again := Repair(slices.Clone(got)); string(again) != string(got) {
			t.Fatalf("%q: %q and then %q", text, got, again)
		}
		checkSurrogates(t, got)
	})
}

// checkSurrogates finds lone surrogates the slow way: it removes escaped backslashes and surrogate pairs, and searches
// the rest.
func checkSurrogates(t *rapid.T, text []byte) {
	s := strings.ToLower(strings.ReplaceAll(string(text), `\\`, ""))
	s = strings.ReplaceAll(s, `\ud83d\ude00`, "")
	if strings.Contains(s, `\ud83d`) || strings.Contains(s, `\ude00`) {
		t.Fatalf("%q has a lone surrogate", text)
	}
}
