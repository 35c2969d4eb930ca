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

// TestTemplatesThatMeanHarm: what could run for long or fill the memory is refused before it runs.
func TestTemplatesThatMeanHarm(t *testing.T) {
	long := strings.Repeat("m", 100<<10)
	for text, want := range map[string]string{
		`{"p": {{.Prompt}}, "x": "{{range $i := 9000000000000000}}{{end}}"}`:                     "body:1:33: range is not allowed",
		`{"p": {{.Prompt}}{{if .Model}}{{else}}{{range 9}}{{end}}{{end}}}`:                       "body:1:46: range is not allowed",
		`{{define "a"}}{{template "a"}}{{end}}{"p": {{.Prompt}}}`:                                "define is not allowed",
		`{"p": {{.Prompt}}{{template "body"}}}`:                                                  "template is not allowed",
		`{{block "a" .}}{{end}}{"p": {{.Prompt}}}`:                                               "is not allowed",
		`{"p": {{.Prompt}}, "x": "{{printf "%999999999d" 1}}"}`:                                  "printf is not allowed",
		`{"p": {{.Prompt}}, "x": "{{1 | printf "%999999999d"}}"}`:                                "printf is not allowed",
		`{"p": {{.Prompt}}, "x": {{with $x := (printf "%999999999d" 1)}}{{$x}}{{end}}}`:          "printf is not allowed",
		`{"p": {{.Prompt}}, "x": [` + strings.Repeat("{{.Model}},", 100) + `{{.Model}}]}`:        "makes more than 4194304 bytes",
		`{"p": [` + strings.Repeat("{{.Prompt}},", 100) + `1]}`:                                  "has more than 64 fields",
		`{"p": {{.Prompt}}, "x": "` + strings.Repeat("x", 300<<10) + `"}`:                        "more than the 262144 that a template may have",
		strings.Repeat("{{if .Model}}", 10_000) + strings.Repeat("{{end}}", 10_000):              "has neither",
		`{"p": {{.Prompt}}, "x": "{{with .Model}}{{with html "<"}}{{.}}{{end}}{{end}}"}`:         "html is not allowed",
		`{"p": {{.Prompt}}, "x": "{{if and .Model (slice "abc" 1)}}1{{else}}2{{end}}"}`:          "slice is not allowed",
		`{"p": {{.Prompt}}, "x": "{{if and .Model (not .OSL)}}1{{else}}{{index "a" 0}}{{end}}"}`: "index is not allowed",
	} {
		if _, err := bodies.Template(text, long); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s:\n got %.200v\nwant %s", text, err, want)
		}
	}
}

// FuzzTemplate: no template runs for long or makes much, whatever it has.
func FuzzTemplate(f *testing.F) {
	f.Add(`{"p": {{.Prompt}}, "x": {{if eq 1 2}}{{.Model}}{{end}}}`)
	f.Add(`{{range 3}}{{.}}{{end}}`)
	f.Add(`{{define "a"}}{{end}}{{template "a" .Text}}`)
	f.Add(`{{with $x := .OSL}}{{$x | printf "%9d"}}{{end}}`)
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
		"{\n\"a\": {{.Prompt}": "body:2: bad character",
		`{"a": {{.Prompts}}}`:  `no entry for key "Prompts"`,
		`{"a": 1}`:             "has neither {{.Prompt}} nor {{.Text}}",
		`{"a": "{{.Prompt}}"}`: `does not make JSON: invalid character 'o' after object key:value pair, in {"a": ""one two""}`,
		`{"a": {{.Prompt}},}`:  "does not make JSON",
		`{"a": {{.Prompt}}, "b": {{if gt .OSL 5}}1{{else}}2{{end}}}`: "body:1:29: gt is not allowed in a plan's template",
		`{"a": {{len .Prompt}}}`:                                     "body:1:8: len is not allowed",
		`{"a": {{nothing .Prompt}}}`:                                 `function "nothing" not defined`,
	} {
		if _, err := bodies.Template(text, "m"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}
