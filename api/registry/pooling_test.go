package registry

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spate-load/spate/api"
)

var poolingAnswers = []string{
	`{"object":"listText","data":[{"index":0,"embedding":[0.1]}],"usage":{"prompt_tokens":3,"total_tokens":3}}`,
	`{"results":[{"index":0,"relevance_score":0.5}],"usage":{"total_tokens":9}}`,
	`{"embeddings":{"float":[[0.1]]},"meta":{"billed_units":{"input_tokens":4}}}`,
	`{"results":[],"meta":{"tokens":{"input_tokens":5},"billed_units":{"input_tokens":1}}}`,
	`{"error":{"message":"no"}}`, `{"data":[]}`, `[[0.1,0.2]]`, `[]`, `[[]]`, `{}`, `null`, ``, `[`, `7`,
	`{"usage":{"prompt_tokens":-1}}`, `{"data":[1],"data":[]}`, ` [ [ 1 ] ] `, `{"\u0064ata":[1]}`,
}

// FuzzAnswers compares both parsers with encoding/json: what is not JSON is refused, what has an error has failed, and
// what has vectors or scores is an answer.
func FuzzAnswers(f *testing.F) {
	for _, a := range poolingAnswers {
		f.Add([]byte(a))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var value any
		valid := json.Unmarshal(data, &value) == nil
		object, isObject := value.(map[string]any)
		listText, isList := value.([]any)
		var frame api.Frame
		if err := parsePooling(api.Event{Data: data}, &frame); (err == nil) != isObject {
			t.Fatalf("%q: error %v", data, err)
		}
		if isObject {
			checkPoolingAnswer(t, data, object, &frame)
		}
		if err := parseVectors(api.Event{Data: data}, &frame); (err == nil) != (valid && (isObject || isList)) {
			t.Fatalf("%q: error %v of TEI's answer", data, err)
		}
		some := false
		for _, vector := range listText {
			some = some || holdsSomething(vector)
		}
		if isList && frame.Token != some {
			t.Errorf("%q: TEI's answer has a vector: %v, want %v", data, frame.Token, some)
		}
	})
}

func checkPoolingAnswer(t *testing.T, data []byte, object map[string]any, f *api.Frame) {
	t.Helper()
	if f.Failed != holdsSomething(object["error"]) {
		t.Errorf("%q: failed %v", data, f.Failed)
	}
	want := holdsSomething(object["data"]) || holdsSomething(object["embeddings"]) || holdsSomething(object["results"])
	if !f.Failed && f.Token != want {
		t.Errorf("%q: an answer: %v, want %v", data, f.Token, want)
	}
}

// FuzzRewrites: whatever the text, a prompt becomes JSON, and has all of its words.
func FuzzRewrites(f *testing.F) {
	f.Add("a b")
	f.Add("")
	f.Add(strings.Repeat("word \"é\\ ", 300))
	f.Fuzz(func(t *testing.T, text string) {
		prompt, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, rewrite := range []func([]byte, int) []byte{listText, cutWordsInto(`,"documents":`)} {
			body := append(rewrite(append([]byte(`{"query":`), prompt...), len(`{"query":`)), '}')
			var fields map[string]any
			if err := json.Unmarshal(body, &fields); err != nil {
				t.Fatalf("%q: %s: %v", text, body, err)
			}
			var said []string
			for _, name := range []string{"query", "documents"} {
				switch v := fields[name].(type) {
				case string:
					said = append(said, v)
				case []any:
					for _, one := range v {
						said = append(said, one.(string))
					}
				}
			}
			var decoded string
			if err := json.Unmarshal(prompt, &decoded); err != nil {
				t.Fatal(err)
			}
			all := strings.Join(said, " ")
			for word := range strings.SplitSeq(decoded, " ") {
				if !strings.Contains(all, word) {
					t.Errorf("%q: %q is lost in %s", text, word, body)
				}
			}
		}
	})
}

// A query of its own is the query, and each text behind it a document.
func TestQueryOfItsOwn(t *testing.T) {
	got := cutWordsInto(`,"documents":`)([]byte(`{"query":[["a [\"] b"],"d, e","f"]`), len(`{"query":`))
	if want := `{"query":"a [\"] b","documents":["d, e","f"]`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
