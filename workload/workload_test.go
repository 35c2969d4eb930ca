package workload

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// content returns a workload of random content.
func content(c *spatev1.RandomContent) *spatev1.Workload {
	return &spatev1.Workload{Content: &spatev1.Workload_Random{Random: c}}
}

// made returns a workload that must be possible.
func made(t rapid.TB, c *spatev1.RandomContent, seed uint64) Workload {
	t.Helper()
	w, err := New(Config{Workload: content(c), Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// prompt appends a prompt that must be possible.
func prompt(t rapid.TB, w Workload, dst []byte, index uint64, form Form) []byte {
	t.Helper()
	dst, err := w.AppendPrompt(dst, Request{Index: index, Form: form})
	if err != nil {
		t.Fatal(err)
	}
	return dst
}

// contents draws random content of up to 300 tokens.
var contents = rapid.Custom(func(t *rapid.T) *spatev1.RandomContent {
	c := &spatev1.RandomContent{Isl: rapid.Uint32Range(1, 300).Draw(t, "isl"), Osl: rapid.Uint32Min(1).Draw(t, "osl")}
	if rapid.Bool().Draw(t, "ids given") {
		c.FirstTokenId = rapid.Uint32Range(1, 1<<24).Draw(t, "first")
		c.LastTokenId = rapid.Uint32Range(c.FirstTokenId, 1<<24).Draw(t, "last")
	}
	return c
})

// TestPrompts checks JSON, exact lengths, the range of ids, and that a prompt depends on seed and index alone.
func TestPrompts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, seed, index := contents.Draw(t, "content"), rapid.Uint64().Draw(t, "seed"), rapid.Uint64().Draw(t, "index")
		w := made(t, c, seed)
		if ask, err := w.Ask(index, 0); err != nil || ask != (Ask{ISL: c.Isl, OSL: c.Osl, Turns: 1}) {
			t.Fatalf("asks for %+v (%v), want %d:%d", ask, err, c.Isl, c.Osl)
		}
		checkIDs(t, c, prompt(t, w, nil, index, TokenIDs))
		checkWords(t, c, prompt(t, w, nil, index, Text))
		for _, form := range []Form{Text, TokenIDs} {
			one := prompt(t, w, []byte("kept"), index, form)
			prompt(t, w, nil, index+1, form)
			again := prompt(t, made(t, c, seed), nil, index, form)
			if !bytes.Equal(one, append([]byte("kept"), again...)) {
				t.Fatalf("request %d is once %.80q and once %.80q", index, one, again)
			}
		}
	})
}

// checkIDs checks a prompt of token ids.
func checkIDs(t *rapid.T, c *spatev1.RandomContent, prompt []byte) {
	var ids []uint32
	if err := json.Unmarshal(prompt, &ids); err != nil {
		t.Fatalf("%v: %.80q", err, prompt)
	}
	first, last := c.FirstTokenId, c.LastTokenId
	if first == 0 {
		first, last = 1000, 9999
	}
	if len(ids) != int(c.Isl) || slices.Min(ids) < first || slices.Max(ids) > last {
		t.Fatalf("%d ids from %d to %d, want %d from %d to %d", len(ids), slices.Min(ids), slices.Max(ids), c.Isl, first, last)
	}
}

// checkWords checks a prompt of text.
func checkWords(t *rapid.T, c *spatev1.RandomContent, prompt []byte) {
	var text string
	if err := json.Unmarshal(prompt, &text); err != nil {
		t.Fatalf("%v: %.80q", err, prompt)
	}
	got := strings.Split(text, " ")
	if len(got) != int(c.Isl) {
		t.Fatalf("%d words, want %d", len(got), c.Isl)
	}
	for _, word := range got {
		if _, known := placeOf(word); !known {
			t.Fatalf("%q is none of the words", word)
		}
	}
}

// placeOf returns the place of a word in the sorted list.
func placeOf(text string) (int, bool) {
	return slices.BinarySearchFunc(words, text, func(w word, text string) int { return strings.Compare(w.text(), text) })
}

// text returns the word without its space.
func (w word) text() string { return string(w.letters[:w.size-1]) }

// TestWordList: sorted, so each once; short, lowercase, and none that JSON would have to escape.
func TestWordList(t *testing.T) {
	if len(words) < 256 {
		t.Fatalf("%d words are too few", len(words))
	}
	for i, w := range words {
		if strings.Trim(w.text(), "abcdefghijklmnopqrstuvwxyz") != "" || w.letters[w.size-1] != ' ' {
			t.Errorf("%q is no lowercase word of at most 7 letters and a space", w.letters)
		}
		if i > 0 && words[i-1].text() >= w.text() {
			t.Errorf("%q comes after %q", w.text(), words[i-1].text())
		}
	}
}

// TestRequestsDiffer: no two of many requests, of neighbouring seeds and indices, begin with the same 16 tokens.
func TestRequestsDiffer(t *testing.T) {
	for _, form := range []Form{Text, TokenIDs} {
		seen := make(map[string]bool)
		n := 0
		for seed := range uint64(20) {
			w := made(t, &spatev1.RandomContent{Isl: 16, Osl: 1}, seed)
			for index := range uint64(1000) {
				seen[string(prompt(t, w, nil, index, form))] = true
				n++
			}
		}
		if len(seen) != n {
			t.Errorf("form %d: %d of %d prompts are different", form, len(seen), n)
		}
	}
}

// chiSquare returns how far counts are from uniform in standard deviations of the statistic: (x - f) / sqrt(2f) with f
// degrees of freedom.
func chiSquare(counts []int) float64 {
	total := 0
	for _, c := range counts {
		total += c
	}
	want, x := float64(total)/float64(len(counts)), 0.0
	for _, c := range counts {
		x += (float64(c) - want) * (float64(c) - want) / want
	}
	freedom := float64(len(counts) - 1)
	return (x - freedom) / math.Sqrt(2*freedom)
}

// TestUniform: each id and each word comes equally often, over all places of a prompt and at its first alone. Four standard
// deviations are allowed, on both sides; the seeds are fixed.
func TestUniform(t *testing.T) {
	for name, c := range map[string]struct {
		isl      uint32
		requests uint64
	}{"all places": {1000, 300}, "first place": {1, 300_000}} {
		w := made(t, &spatev1.RandomContent{Isl: c.isl, Osl: 1, FirstTokenId: 5000, LastTokenId: 5999}, 9)
		ids, texts := make([]int, 1000), make([]int, len(words))
		var buffer []byte
		for index := range c.requests {
			buffer = prompt(t, w, buffer[:0], index, TokenIDs)
			for id := range bytes.SplitSeq(bytes.Trim(buffer, "[]"), []byte(",")) {
				ids[int(id[1]-'0')*100+int(id[2]-'0')*10+int(id[3]-'0')]++
			}
			buffer = prompt(t, w, buffer[:0], index, Text)
			for word := range bytes.SplitSeq(bytes.Trim(buffer, `"`), []byte(" ")) {
				i, _ := placeOf(string(word))
				texts[i]++
			}
		}
		if far := chiSquare(ids); math.Abs(far) > 4 {
			t.Errorf("%s: ids are %.1f standard deviations from uniform", name, far)
		}
		if far := chiSquare(texts); math.Abs(far) > 4 {
			t.Errorf("%s: words are %.1f standard deviations from uniform", name, far)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, w := range map[string]*spatev1.Workload{
		"nothing":                          nil,
		"no content":                       {Name: "x"},
		"no isl":                           content(&spatev1.RandomContent{Osl: 1}),
		"no osl":                           content(&spatev1.RandomContent{Isl: 1}),
		"empty range":                      content(&spatev1.RandomContent{Isl: 1, Osl: 1, FirstTokenId: 9, LastTokenId: 8}),
		"first id beyond the default last": content(&spatev1.RandomContent{Isl: 1, Osl: 1, FirstTokenId: 20_000}),
	} {
		if _, err := New(Config{Workload: w, Seed: 1}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestPromptDoesNotAllocate reuses a buffer that is long enough.
func TestPromptDoesNotAllocate(t *testing.T) {
	w := made(t, &spatev1.RandomContent{Isl: 500, Osl: 1}, 1)
	for _, form := range []Form{Text, TokenIDs} {
		buffer := prompt(t, w, nil, 0, form)
		if n := testing.AllocsPerRun(20, func() { buffer = prompt(t, w, buffer[:0], 1, form) }); n != 0 {
			t.Errorf("form %d: %v allocations", form, n)
		}
	}
}

// BenchmarkPrompt makes prompts of 3,000 tokens.
func BenchmarkPrompt(b *testing.B) {
	for name, form := range map[string]Form{"text": Text, "ids": TokenIDs} {
		b.Run(name, func(b *testing.B) {
			w := made(b, &spatev1.RandomContent{Isl: 3000, Osl: 150}, 1)
			buffer := prompt(b, w, nil, 0, form)
			b.ReportAllocs()
			for i := uint64(0); b.Loop(); i++ {
				buffer = prompt(b, w, buffer[:0], i, form)
			}
		})
	}
}
