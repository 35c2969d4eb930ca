package workload

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/workload/draw"
)

// wordLists draws lists of words as in tokenizers: any text without spaces.
var wordLists = rapid.Custom(func(t *rapid.T) []string {
	text := rapid.StringOfN(rapid.SampledFrom([]rune("abcxyzäß語\"\\/<&\u2028\t\x01")), 1, 12, -1)
	return rapid.SliceOfN(text, 1, 40).Draw(t, "words")
})

// TestLexicon compares the appended words with those that a plain loop draws.
func TestLexicon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := wordLists.Draw(t, "list")
		l := newLexicon(list)
		tokens := draw.New(rapid.Uint64().Draw(t, "seed"))
		from, n := rapid.Uint64Max(1e6).Draw(t, "from"), rapid.Uint64Max(200).Draw(t, "n")
		want := make([]string, n)
		for i := range n {
			want[i] = list[tokens.Below(from+i, uint64(len(list)))]
		}
		var got string
		quoted := append(l.Append([]byte(`"`), tokens, from, n), '"')
		if err := json.Unmarshal(quoted, &got); err != nil {
			t.Fatalf("%v: %q", err, quoted)
		}
		if got != strings.Join(want, " ") {
			t.Fatalf("words %q, want %q", got, want)
		}
	})
}

// TestLexiconDefault: no list means the package's own words.
func TestLexiconDefault(t *testing.T) {
	l := newLexicon(nil)
	if l.Size() != len(words) {
		t.Fatalf("%d words, want %d", l.Size(), len(words))
	}
	for word := range strings.FieldsSeq(string(l.Append(nil, draw.New(1), 0, 1000))) {
		if !slices.Contains(LexiconWords(), word) {
			t.Errorf("%q is not one of the words", word)
		}
	}
}

// BenchmarkLexicon appends 3,000 words: the built-in ones eight bytes at a time, longer ones by their length.
func BenchmarkLexicon(b *testing.B) {
	long := make([]string, len(words))
	for i, w := range words {
		long[i] = w.text() + "ingly"
	}
	for name, l := range map[string]*lexicon{"short": newLexicon(nil), "long": newLexicon(long)} {
		b.Run(name, func(b *testing.B) {
			buffer := l.Append(nil, draw.New(1), 0, 3000)
			b.ReportAllocs()
			for i := uint64(0); b.Loop(); i++ {
				buffer = l.Append(buffer[:0], draw.New(i), 0, 3000)
			}
		})
	}
}

func TestOwnWords(t *testing.T) {
	list := LexiconWords()
	if len(list) != len(words) || !slices.IsSorted(list) {
		t.Errorf("%d words, sorted %v", len(list), slices.IsSorted(list))
	}
	for _, w := range list {
		if w == "" || strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("%q is not a plain lowercase word", w)
		}
	}
}

// text returns the word without its space.
func (w word) text() string { return string(w.letters[:w.size-1]) }

// TestWordList: the words are sorted, so that each occurs once, short and lowercase, and none needs escaping in JSON.
func TestWordList(t *testing.T) {
	if len(words) < 256 {
		t.Fatalf("%d words are too few", len(words))
	}
	for i, w := range words {
		if strings.Trim(w.text(), "abcdefghijklmnopqrstuvwxyz") != "" || w.letters[w.size-1] != ' ' {
			t.Errorf("%q is not a lowercase word of at most 7 letters and a space", w.letters)
		}
		if i > 0 && words[i-1].text() >= w.text() {
			t.Errorf("%q comes after %q", w.text(), words[i-1].text())
		}
	}
}
