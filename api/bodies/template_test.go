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
		`{"m": {"n": {"p": {{ .Prompt }}}}}`:                         `{"m": {"n": {"p": "x \"y\" z"}}}`,
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

// TestTemplatesThatMeanHarm: what could fill the memory is refused.
func TestTemplatesThatMeanHarm(t *testing.T) {
	long := strings.Repeat("m", 100<<10)
	for text, want := range map[string]string{
		`{"p": {{.Prompt}}, "x": [` + strings.Repeat("{{.Model}},", 100) + `{{.Model}}]}`: "body:1: makes more than 4194304 bytes",
		`{"p": [` + strings.Repeat("{{.Prompt}},", 100) + `1]}`:                           "has more than 64 fields",
		`{"p": {{.Prompt}}, "x": "` + strings.Repeat("x", 300<<10) + `"}`:                 "more than the 262144 that a template may have",
	} {
		if _, err := bodies.Template(text, long); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s:\n got %.200v\nwant %s", text, err, want)
		}
	}
}

// FuzzTemplate: no template makes much, whatever it has.
func FuzzTemplate(f *testing.F) {
	f.Add(`{"p": {{.Prompt}}, "x": {{.Model}}, "n": {{ .OSL }}}`)
	f.Add(`{"p": "{{.Text}}{{if .Model}}"`)
	f.Fuzz(func(t *testing.T, text string) {
		body, err := bodies.Template(text, "m")
		if err != nil {
			return
		}
		if n := len(body.Append(nil, 1, func(b []byte) []byte { return append(b, `""`...) }, nil)); n > 5<<20 {
			t.Errorf("%q makes %d bytes", text, n)
		}
	})
}

// TestTemplateMistakes names what is wrong with a template, and where.
func TestTemplateMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"{\n\"a\": {{.Prompt}": "body:2: {{.Prompt} has no }}",
		`{"a": {{.Prompts}}}`:  "body:1: {{.Prompts}} is not a field: use {{.Model}}, {{.Prompt}}, {{.Text}} or {{.OSL}}",
		`{"a": 1}`:             "has neither {{.Prompt}} nor {{.Text}}",
		`{"a": "{{.Prompt}}"}`: `does not make JSON: invalid character 'o' after object key:value pair, in {"a": ""one two""}`,
		`{"a": {{.Prompt}},}`:  "does not make JSON",
		"{\"a\": {{.Prompt}},\n\n\"b\": {{if .OSL}}1{{end}}}": "body:3: {{if .OSL}} is not a field",
	} {
		if _, err := bodies.Template(text, "m"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}
