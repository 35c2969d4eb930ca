package api

import (
	"encoding/json"
	"testing"
)

// Messages with any content become turns of parts, and system prompts a field of their own.
func TestTurns(t *testing.T) {
	turns := &Turns{Assistant: "model", Parts: "parts", SystemOpen: `,"system":[`, SystemClose: `]`}
	for messages, want := range map[string]string{
		`[]`:                                 `[]`,
		`"x"`:                                `"x"`,
		`[{"role":"user","content":"a\"}"}]`: `[{"role":"user","parts":[{"text":"a\"}"}]}]`,
		`[ {"role": "system", "content": "s"}, {"content":"a","role":"user"}, {"role":"assistant","content":"b}"} ]`: `[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b}"}]}],"system":[{"text":"s"}]`,
		`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"},{"type":"text","text":"b"}]}]`:   `[{"role":"user","parts":[{"text":"a"},{"text":"b"}]}]`,
		`[{"role":"system","content":"s"},{"role":"developer","content":"d"}]`:                                       `[],"system":[{"text":"s"},{"text":"d"}]`,
	} {
		if got := string(turns.Rewrite([]byte(`{"x":`+messages), len(`{"x":`))); got != `{"x":`+want {
			t.Errorf("%s:\n got %s\nwant %s", messages, got, want)
		} else if !json.Valid([]byte(got + "}")) {
			t.Errorf("%s: %s is not JSON", messages, got)
		}
	}
}
