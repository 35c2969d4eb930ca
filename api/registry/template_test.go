package registry

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/spate-load/spate/api"
)

// specs are what the fuzz test reads frames by.
var specs = []Template{
	{Text: "response", Finish: "done_reason", Error: "error", InputTokens: "u.in", OutputTokens: "u.out",
		CachedTokens: "u.hit"},
	{Text: "out.0.piece", InputTokens: "in"},
	{InputTokens: "tokens"},
	{Text: "@this"},
	{Text: "#.text|0", Finish: "..0"},
}

var templateFrames = []string{
	`{"response":"a","u":{"in":3,"out":2,"hit":1}}`, `{"response":"","done_reason":"stop"}`,
	`{"error":{"message":"no"}}`, `{"error":"no"}`, `{"out":[{"piece":"\ud83d\ude00"}],"in":7}`, `{"tokens":1e400}`,
	`{"response":7}`, `[{"text":"a"}]`, `"a"`, `null`, `{`, ``, `{"response":"a","response":"b"}`, `{"out":[]}`,
	"{\"response\":\"\xff\"}", `{"u":{"in":-1,"out":99999999999999999999}}`,
}

// FuzzParse compares with encoding/json, whatever a server sends: a frame is refused if and only if it is not JSON, and
// its text is that of a JSON string at the path.
func FuzzParse(f *testing.F) {
	for _, frame := range templateFrames {
		for i := range specs {
			f.Add([]byte(frame), uint(i))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, of uint) {
		s := specs[of%uint(len(specs))]
		var frame api.Frame
		err := s.parse(api.Event{Data: data}, &frame)
		if (err == nil) != json.Valid(data) {
			t.Fatalf("%q: error %v", data, err)
		}
		if err != nil || frame.Failed {
			return
		}
		if s.Text == "" && !frame.Token {
			t.Errorf("%q: an answer without text that is not a token", data)
		}
		if text := textAt(data, s.Text); s.Text != "" && frame.Token != (text != "") {
			t.Errorf("%q: token %v, text %q", data, frame.Token, text)
		}
		var answer string
		if err := json.Unmarshal([]byte(`"`+string(frame.Answer)+`"`), &answer); err != nil {
			t.Errorf("%q: the answer %q is not the inside of a string", data, frame.Answer)
		}
		if frame.HasInput && s.InputTokens == "" {
			t.Errorf("%q: prompt tokens without a path", data)
		}
	})
}

// textAt returns the string at a path, "" if there is none. Of two members with a name the last one counts.
func textAt(data []byte, path string) string {
	if strings.ContainsAny(path, "#@.|") {
		text, _ := gjson.GetBytes(data, path).Value().(string)
		return text
	}
	var all map[string]any
	_ = json.Unmarshal(data, &all) // a text that is not an object has no members
	text, _ := all[path].(string)
	return text
}

// TestEventsForLines: paths find their values in "data: {...}", too, so the framing is checked.
func TestEventsForLines(t *testing.T) {
	s := Template{Stream: Lines, Text: "text"}
	if err := s.check([][]byte{[]byte(`{"text": "a"}`)}); err != nil {
		t.Error(err)
	}
	err := s.check([][]byte{[]byte("event: message"), []byte(`data: {"text": "a"}`)})
	if err == nil || !strings.Contains(err.Error(), "set stream: sse") {
		t.Error(err)
	}
}

// A path that finds nothing is named, with its field; one that any event answers is not.
func TestPathsThatFindNothing(t *testing.T) {
	s := specs[0]
	events := [][]byte{[]byte(templateFrames[0]), []byte(templateFrames[1])}
	if err := s.check(events); err != nil {
		t.Error(err)
	}
	err := s.check(events[:1])
	if err == nil || err.Error() != `template.finish: the path "done_reason" finds nothing` {
		t.Error(err)
	}
	if err := s.check(nil); strings.Count(err.Error(), "finds nothing") != 5 {
		t.Error(err)
	}
}

// Values that nest without end cost no more memory than their bytes: they are no JSON that anybody reads.
func TestDeepValuesAreNoAnswer(t *testing.T) {
	deep := []byte(`{"text": ` + strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20) + "}")
	if err := (Template{Text: "text"}).parse(api.Event{Data: deep}, &api.Frame{}); err == nil {
		t.Error("a value nested a million deep was read")
	}
}
