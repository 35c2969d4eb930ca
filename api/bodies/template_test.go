package bodies_test

import (
	"strings"
	"testing"

	"github.com/spate-load/spate/api/bodies"
)

// TestTemplate fills bodies in, with prompts of any content.
func TestTemplate(t *testing.T) {
	for text, want := range map[string]string{
		`{"model": {{.Model}}, "input": {{.Prompt}}, "n": {{.OSL}}}`: `{"model": "a \"b", "input": "x \"y\" z", "n": 7}`,
		`{"q": "Say: {{.Text}}!", "again": {{.Prompt}}}`:             `{"q": "Say: x \"y\" z!", "again": "x \"y\" z"}`,
		`{{if .Model}}{"m": 1, "p": {{.Prompt}}}{{end}}`:             `{"m": 1, "p": "x \"y\" z"}`,
		"{\n  \"prompt\": {{.Prompt}} {{- /* no more */ -}}\n}":      "{\n  \"prompt\": \"x \\\"y\\\" z\"}",
	} {
		body, err := bodies.Template(text, `a "b`)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := string(body.Append(nil, 7, func(dst []byte) []byte { return append(dst, `"x \"y\" z"`...) }, nil))
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}

// TestTemplateMistakes names what is wrong with a template, and where.
func TestTemplateMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"{\n\"a\": {{.Prompt}": "body:2: bad character",
		`{"a": {{.Prompts}}}`:  `no entry for key "Prompts"`,
		`{"a": 1}`:             "has neither {{.Prompt}} nor {{.Text}}",
		`{"a": "{{.Prompt}}"}`: `does not make JSON: invalid character 'o' after object key:value pair, in {"a": ""one two""}`,
		`{"a": {{.Prompt}},}`:  "does not make JSON",
		`{"a": {{.Prompt}}, "b": {{if gt .OSL 5}}1{{else}}2{{end}}}`: "body:1:29: executing \"body\" at <gt .OSL 5>: error calling gt",
		`{"a": {{len .Prompt}}}`:                                     "error calling len",
		`{"a": {{nothing .Prompt}}}`:                                 `function "nothing" not defined`,
	} {
		if _, err := bodies.Template(text, "m"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}
