package tokenizer

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var fixtures = []string{"gpt2", "llama3", "qwen", "deepseek", "llama2", "mistral", "gemma", "unigram", "digits"}

// unpacked reads a file of testdata.
func unpacked(t testing.TB, name string) []byte {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// opened opens a tokenizer of testdata.
func opened(t testing.TB, name string) *Tokenizer {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(path, unpacked(t, name+".json"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokenizer, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return tokenizer
}

// TestAgainstReference compares with the results of Hugging Face's own library for the same texts.
func TestAgainstReference(t *testing.T) {
	for _, name := range fixtures {
		t.Run(name, func(t *testing.T) {
			var samples []struct {
				Text string
				IDs  []uint32
			}
			if err := json.Unmarshal(unpacked(t, name+".expected.json"), &samples); err != nil {
				t.Fatal(err)
			}
			tokenizer := opened(t, name)
			for _, s := range samples {
				if ids := tokenizer.encode(s.Text); !slices.Equal(ids, s.IDs) {
					t.Errorf("%q:\n got %v\nwant %v", s.Text, ids, s.IDs)
				}
				if n, err := tokenizer.Count(s.Text); err != nil || n != len(s.IDs) {
					t.Errorf("%q: %d tokens, want %d: %v", s.Text, n, len(s.IDs), err)
				}
			}
			if len(samples) < 90 {
				t.Errorf("%d samples", len(samples))
			}
		})
	}
}

// TestLexicon checks that any prompt of a lexicon's words has as many tokens as words.
func TestLexicon(t *testing.T) {
	for _, name := range fixtures {
		tokenizer := opened(t, name)
		lexicon, err := tokenizer.Lexicon()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		words := lexicon.GetWords()
		if len(words) < 100 || lexicon.GetSource() != "file" {
			t.Errorf("%s: %d words of %s", name, len(words), lexicon.GetSource())
		}
		lots := rand.New(rand.NewPCG(3, 4))
		for range 1000 {
			text := make([]string, 1+lots.IntN(80))
			for i := range text {
				text[i] = words[lots.IntN(len(words))]
			}
			if n, err := tokenizer.Count(strings.Join(text, " ")); err != nil || n != len(text) {
				t.Fatalf("%s: %q has %d tokens, asked for %d: %v", name, text, n, len(text), err)
			}
		}
		again, err := opened(t, name).Lexicon()
		if err != nil || !slices.Equal(again.GetWords(), words) {
			t.Errorf("%s: other words the second time: %v", name, err)
		}
	}
}

// TestRefusedFiles checks that unknown parts are errors, not guesses.
func TestRefusedFiles(t *testing.T) {
	const model = `"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}`
	for want, text := range map[string]string{
		"is not a tokenizer.json":                                     `[]`,
		"has no model":                                                `{}`,
		`model "WordPiece" is not supported`:                          `{"model":{"type":"WordPiece"}}`,
		`normalizer "BertNormalizer" is not supported`:                `{"normalizer":{"type":"BertNormalizer"},` + model + `}`,
		`normalizer "Precompiled" is not supported`:                   `{"normalizer":{"type":"Sequence","normalizers":[{"type":"Precompiled"}]},` + model + `}`,
		`pre-tokenizer "UnicodeScripts" is not supported`:             `{"pre_tokenizer":{"type":"UnicodeScripts"},` + model + `}`,
		`split behavior "Odd" is not supported`:                       `{"pre_tokenizer":{"type":"Split","pattern":{"String":"a"},"behavior":"Odd"},` + model + `}`,
		`pattern "a++" is not supported`:                              `{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a++"},"behavior":"Isolated"},` + model + `}`,
		"neither a String nor a Regex":                                `{"pre_tokenizer":{"type":"Split","pattern":{},"behavior":"Isolated"},` + model + `}`,
		`prepend scheme "odd" is not supported`:                       `{"pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"odd"},` + model + `}`,
		`merge 0 of "a" and "c" has a token that`:                     `{"model":{"type":"BPE","vocab":{"a":0},"merges":[["a","c"]]}}`,
		`merge "ab" is not a pair`:                                    `{"model":{"type":"BPE","vocab":{"a":0},"merges":["ab"]}}`,
		"dropout":                                                     `{"model":{"type":"BPE","vocab":{"a":0},"dropout":0.1}}`,
		`unknown token "x" is not in the vocabulary`:                  `{"model":{"type":"BPE","vocab":{"a":0},"unk_token":"x"}}`,
		`token "a" has the id 4000000000`:                             `{"model":{"type":"BPE","vocab":{"a":4000000000}}}`,
		"unknown token has the id 7, but its vocabulary has 1 tokens": `{"model":{"type":"Unigram","vocab":[["a",-1.0]],"unk_id":7}}`,
		"entry 0 of its vocabulary":                                   `{"model":{"type":"Unigram","vocab":[[1,-1.0]]}}`,
		"0 lowercase words of its vocabulary are one tok":             `{` + model + `}`,
	} {
		tokenizer, err := parse([]byte(text))
		if err == nil {
			_, err = tokenizer.Lexicon()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	missing := filepath.Join(t.TempDir(), "tokenizer.json")
	if _, err := Open(missing); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("no file: %v", err)
	}
}

func TestInvalidUTF8(t *testing.T) {
	if n, err := opened(t, "gpt2").Count("a\xff"); err == nil {
		t.Errorf("%d tokens", n)
	}
}

// mergeOracle merges in the slow and obvious way: it searches all pairs for the best one again and again.
func mergeOracle(m *bpe, symbols []uint32) []uint32 {
	for {
		at, best := -1, merge{}
		for i := range len(symbols) - 1 {
			if found, ok := m.merges[[2]uint32{symbols[i], symbols[i+1]}]; ok && (at < 0 || found.rank < best.rank) {
				at, best = i, found
			}
		}
		if at < 0 {
			return symbols
		}
		symbols = slices.Replace(symbols, at, at+2, best.id)
	}
}

func TestMergesAgainstOracle(t *testing.T) {
	m, ok := opened(t, "llama2").model.(*bpe)
	if !ok {
		t.Fatal("no BPE")
	}
	lots := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		text := make([]byte, lots.IntN(60))
		for i := range text {
			text[i] = "etaoinshrdlu"[lots.IntN(12)]
		}
		symbols := m.symbols(string(text))
		if got, want := m.merge(nil, slices.Clone(symbols)), mergeOracle(m, symbols); !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", text, got, want)
		}
	}
}

// An expression that would search forever ends with an error.
func TestEndlessSearch(t *testing.T) {
	tokenizer, err := parse([]byte(`{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?:a|aa)+\\d"},
		"behavior":"Isolated"},"model":{"vocab":{"a":0}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokenizer.Count(strings.Repeat("a", 60)); err == nil || !strings.Contains(err.Error(), "takes longer than") {
		t.Errorf("error %v", err)
	}
}

// FuzzCount searches for texts that a tokenizer fails on, and for files that break it.
func FuzzCount(f *testing.F) {
	f.Add(`{"model":{"vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}}`, "aab")
	f.Add(`{"normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"ByteLevel"},"model":{"vocab":{"a":0}},"added_tokens":[{"id":3,"content":"<a>"}]}`, "x <a> ya")
	f.Add(`{"pre_tokenizer":{"type":"Metaspace","replacement":"_"},"model":{"type":"Unigram","vocab":[["_",-1],["a",-2]],"unk_id":0}}`, "a é b")
	f.Add(`{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\s+(?!\\S)|\\s+"},"behavior":"MergedWithNext","invert":true},"model":{"vocab":{}}}`, " \n a")
	f.Fuzz(func(t *testing.T, file, text string) {
		if len(file) > 1000 || len(text) > 50 || strings.Contains(file, "Regex") && len(file) > 250 {
			return
		}
		tokenizer, err := parse([]byte(file))
		if err != nil {
			return
		}
		n, err := tokenizer.Count(text)
		if again, _ := tokenizer.Count(text); n != again || err == nil && n > 8*(len(text)+1)*len(file) {
			t.Errorf("%d and %d tokens, %v", n, again, err)
		}
	})
}

func BenchmarkCount(b *testing.B) {
	tokenizer := opened(b, "qwen")
	text := strings.Repeat("The quick brown fox jumps over the lazy dog, 42 times.\n", 100)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if n, err := tokenizer.Count(text); err != nil || n < 1000 {
			b.Fatal(n, err)
		}
	}
}
