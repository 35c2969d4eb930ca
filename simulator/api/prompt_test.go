package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/simulator/config"
)

// parseRequest reads the body for an API that looks at nothing else of the request.
func parseRequest(a API, body []byte, c *config.Config) (*Request, *Error) {
	return a.Parse(new(http.Request), body, c)
}

// Counting by reading bytes gives the same result as decoding.
func FuzzPromptTokens(f *testing.F) {
	for _, s := range []string{`[1,2,3]`, `[]`, `[ 7 ]`, `"a b\n\u00a0c"`, `[-1]`, `[1.5]`, `[1e3]`, `[[1]]`, `["a"]`,
		`null`, `{}`, `[true]`, ` [1]`, `""`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw := json.RawMessage(s)
		if !json.Valid(raw) {
			return
		}
		var counted tokens
		problem := counted.prompt(raw)
		got := counted.count
		var text *string
		var numbers []json.Number
		var values []any
		switch {
		case json.Unmarshal(raw, &text) == nil && text != nil:
			if problem != nil || got != len(strings.Fields(*text)) {
				t.Errorf("%s: %d words, %v", s, got, problem)
			}
		case json.Unmarshal(raw, &values) == nil && len(values) > 0 && onlyIDs(values) &&
			json.Unmarshal(raw, &numbers) == nil && digitsOnly(numbers):
			if problem != nil || got != len(numbers) {
				t.Errorf("%s: %d ids, %v", s, got, problem)
			}
		default:
			if problem == nil {
				t.Errorf("%s: taken as %d tokens", s, got)
			}
		}
	})
}

func onlyIDs(values []any) bool {
	for _, v := range values {
		if _, ok := v.(float64); !ok {
			return false
		}
	}
	return true
}

func digitsOnly(numbers []json.Number) bool {
	for _, n := range numbers {
		if strings.Trim(n.String(), "0123456789") != "" {
			return false
		}
	}
	return true
}

// A text has the same tokens in a completions prompt, in messages, and as the array of its ids, with and without
// escapes.
func TestTokensOfAllForms(t *testing.T) {
	text := "the lamp \u00fcber the  old bridge\tgoes on; the lamp"
	escaped, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Model.CacheBlocks, c.Model.CacheBlockTokens = 100, 3
	counted, problem := Tokenize([]byte(`{"prompt":`+string(escaped)+`}`), &c)
	var want struct {
		Count  int      `json:"count"`
		Tokens []uint64 `json:"tokens"`
	}
	if err := json.Unmarshal(counted, &want); err != nil || want.Count != 10 || want.Tokens[0] != want.Tokens[3] ||
		want.Tokens[0] == want.Tokens[1] {
		t.Fatalf("%s, %v", counted, problem)
	}
	ids, err := json.Marshal(want.Tokens)
	if err != nil {
		t.Fatal(err)
	}
	half := len(`"the lamp`)
	for _, prompt := range []string{
		`"prompt":` + string(escaped),
		`"prompt":` + string(ids),
		`"messages":[{"content":` + string(escaped) + `}]`,
		`"messages":[{"content":` + string(escaped[:half]) + `"},{"content":[{"type":"text","text":"` +
			string(escaped[half:]) + `}]}]`,
		`"prompt":` + strings.ReplaceAll(string(escaped), "lamp", `l\u0061mp`),
	} {
		a := completions
		if strings.Contains(prompt, "messages") {
			a = chat
		}
		q, problem := parseRequest(a, []byte(`{"model":"m",`+prompt+`}`), &c)
		if problem != nil {
			t.Fatalf("%s: %s", prompt, problem.Message)
		}
		if q.PromptTokens != 10 || !slices.Equal(q.Blocks, hashed(3, want.Tokens)) {
			t.Errorf("%s: %d tokens in blocks %x, want %x", prompt, q.PromptTokens, q.Blocks, hashed(3, want.Tokens))
		}
	}
}

// A string that is read in place has the same tokens as the decoded string.
func FuzzPlainWords(f *testing.F) {
	for _, s := range []string{"", " ", "a b", " a  b ", "\x7f x", "word", "a\x0bb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw, err := json.Marshal(s)
		if err != nil || !plain(raw) {
			return
		}
		got, want := tokens{keep: true}, tokens{keep: true}
		if err := got.text(raw); err != nil {
			t.Fatal(err)
		}
		want.words(s)
		if !slices.Equal(got.ids, want.ids) {
			t.Errorf("%s: %d, want %d", raw, got.ids, want.ids)
		}
	})
}

// No body makes the parser panic, and accepted values are within bounds.
func FuzzParseRequest(f *testing.F) {
	f.Add(`{"model":"m","prompt":[1,2],"max_tokens":4,"stream":true}`, true)
	f.Add(`{"model":"m","messages":[{"content":[{"text":"a"}]}],"stream_options":null}`, false)
	c := config.Default()
	f.Fuzz(func(t *testing.T, body string, text bool) {
		a := chat
		if text {
			a = completions
		}
		q, problem := parseRequest(a, []byte(body), &c)
		if problem != nil {
			return
		}
		if q.model == "" || q.MaxTokens < 1 || q.MaxTokens > maxLength || q.minTokens < 0 ||
			q.minTokens > q.MaxTokens || q.PromptTokens < 0 || q.PromptTokens > maxLength {
			t.Errorf("%s: accepted as %+v", body, q)
		}
	})
}

// Prompts share the blocks of their common start and no others.
func TestBlocksDependOnPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 5).Draw(t, "size")
		ids := rapid.SliceOfN(rapid.Uint64Range(0, 3), 0, 40)
		common := ids.Draw(t, "common")
		a := slices.Concat(common, ids.Draw(t, "a"))
		b := slices.Concat(common, ids.Draw(t, "b"))
		same := 0
		for same < min(len(a), len(b)) && a[same] == b[same] {
			same++
		}
		x, y := hashed(size, a), hashed(size, b)
		if len(x) != len(a)/size || len(y) != len(b)/size {
			t.Fatalf("%d and %d blocks of %d and %d tokens", len(x), len(y), len(a), len(b))
		}
		for i := range min(len(x), len(y)) {
			if equal := x[i] == y[i]; equal != ((i+1)*size <= same) {
				t.Fatalf("block %d of %d: equal is %v, the prompts share %d tokens", i, size, equal, same)
			}
		}
	})
}

func hashed(size int, ids []uint64) []uint64 {
	t := tokens{size: size}
	for _, id := range ids {
		t.add(id)
	}
	return t.blocks
}

// TestImageTokens: an image has a token for each 28 x 28 pixels, and the same image the same tokens.
func TestImageTokens(t *testing.T) {
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, image.NewRGBA(image.Rect(0, 0, 29, 56))); err != nil {
		t.Fatal(err)
	}
	part := func(url string) json.RawMessage {
		return json.RawMessage(`[{"type":"text","text":"a b"},{"type":"image_url","image_url":{"url":"` + url + `"}}]`)
	}
	data := "data:image/png;base64," + base64.StdEncoding.EncodeToString(encoded.Bytes())
	first, second := tokens{keep: true}, tokens{keep: true}
	for _, counted := range []*tokens{&first, &second} {
		if err := counted.content(part(data)); err != nil || counted.count != 6 {
			t.Errorf("%d tokens (%v), want 6", counted.count, err)
		}
	}
	if !slices.Equal(first.ids, second.ids) {
		t.Error("an image has other tokens the second time")
	}
	for url, want := range map[string]string{
		"https://host/a.png":         "",
		"data:image/png;base64,AAAA": "neither PNG nor JPEG",
		"data:image/png;base64,?":    "not base64",
	} {
		var counted tokens
		if err := counted.content(part(url)); want == "" && (err != nil || counted.count != 2) ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40s: %d tokens (%v), want %s", url, counted.count, err, want)
		}
	}
}
