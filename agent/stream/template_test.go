package stream

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/registry"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// ollama is Ollama's /api/generate, whose answers are JSON lines.
var ollama = registry.Template{
	Path: "/api/generate", Body: `{"model": {{.Model}}, "prompt": {{.Prompt}}, "options": {"num_predict": {{.OSL}}}}`,
	Stream: registry.Lines, Text: "response", Finish: "done_reason", Error: "error",
	InputTokens: "prompt_eval_count", OutputTokens: "eval_count",
}

const ollamaAnswer = `{"model":"m","response":"one","done":false}
{"model":"m","response":" two","done":false}

{"model":"m","response":"","done":true,"done_reason":"length","prompt_eval_count":5,"eval_count":2}`

// templateServer answers with a content type and a body, and returns what it was sent.
func templateServer(t *testing.T, contentType, answer string) (url string, asked func() (path, body string)) {
	var mu sync.Mutex
	var path, body string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		mu.Lock()
		path, body = r.URL.Path, string(sent)
		mu.Unlock()
		w.Header().Set("Content-Type", contentType)
		io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() (string, string) {
		mu.Lock()
		defer mu.Unlock()
		return path, body
	}
}

// TestTemplates sends what plans describe, and reads streams of events, streams of lines, and answers in one piece.
func TestTemplates(t *testing.T) {
	sse := registry.Template{Path: "/gen", Body: `{"text": "Q: {{.Text}}"}`, Stream: registry.SSE, Text: "out.0.piece",
		InputTokens: "u.in", OutputTokens: "u.out", CachedTokens: "u.hit"}
	whole := registry.Template{Path: "/m/MODEL", Body: `{"inputs": {{.Prompt}}}`, Text: "0.generated_text", OutputTokens: "0.n"}
	none := registry.Template{Path: "/x", Body: `[{{.Prompt}}]`, InputTokens: "tokens"}
	for name, c := range map[string]struct {
		spec                    registry.Template
		contentType, answer     string
		path, body              string
		frames, input, output   uint64
		usage, streamed, cached bool
	}{
		"lines": {ollama, "application/x-ndjson", ollamaAnswer, "/api/generate",
			`{"model": "m", "prompt": "a \"b\"", "options": {"num_predict": 2}}`, 2, 5, 2, true, true, false},
		"events": {sse, "text/event-stream", "data: {\"out\":[{\"piece\":\"x\"}]}\n\ndata: {\"out\":[{\"piece\":\"y\"}],\"u\":{\"in\":3,\"out\":2,\"hit\":1}}\n\n",
			"/gen", `{"text": "Q: a \"b\""}`, 2, 3, 2, true, true, true},
		"whole": {whole, "application/json", `[{"generated_text":"x y","n":2}]`, "/m/m", `{"inputs": "a \"b\""}`,
			1, 0, 2, false, false, false},
		"no tokens": {none, "application/json", `{"tokens":4,"anything":true}`, "/x", `["a \"b\""]`, 1, 4, 0, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			url, asked := templateServer(t, c.contentType, c.answer)
			client := newTestClient(t, Config{Endpoints: []string{url}, API: registry.TemplateName, Template: c.spec, Model: "m",
				Whole: c.spec.Stream == ""})
			var o Observation
			client.Do(t.Context(), Request{Body: client.AppendBody(nil, 2, func(dst []byte) []byte {
				return append(dst, `"a \"b\""`...)
			})}, &o)
			if path, body := asked(); path != c.path || body != c.body {
				t.Errorf("asked %s for %s, want %s for %s", path, body, c.path, c.body)
			}
			if o.Err != nil || o.TokenFrames != c.frames || o.InputTokens != c.input || o.OutputTokens != c.output ||
				o.Usage != c.usage || o.Streamed() != c.streamed || o.HasCachedTokens != c.cached {
				t.Errorf("%+v", o)
			}
			if err := client.Probe(t.Context(), 0, "a"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTemplateProbe names the paths that find nothing, before any load.
func TestTemplateProbe(t *testing.T) {
	url, _ := templateServer(t, "application/x-ndjson", ollamaAnswer)
	wrong := ollama
	wrong.Text, wrong.OutputTokens = "message.content", "eval_counts"
	client := newTestClient(t, Config{Endpoints: []string{url}, API: registry.TemplateName, Template: wrong, Model: "m"})
	err := client.Probe(t.Context(), 0, "a")
	for _, want := range []string{`template.text: the path "message.content" finds nothing`,
		`template.output_tokens: the path "eval_counts" finds nothing`, `"response":"one"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %s", err, want)
		}
	}
	if strings.Contains(err.Error(), "template.finish") {
		t.Error(err)
	}
}

// TestTemplateFaults reads answers that are errors, that are cut, and that are not JSON.
func TestTemplateFaults(t *testing.T) {
	lines := strings.SplitAfter(ollamaAnswer, "\n")
	for answer, want := range map[string]spatev1.ErrorClass{
		lines[0] + `{"error":"out of memory"}`: spatev1.ErrorClass_ERROR_CLASS_STREAM_ERROR,
		lines[0]:                               spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM,
		lines[0] + `{"response":`:              spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME,
		lines[len(lines)-1]:                    spatev1.ErrorClass_ERROR_CLASS_UNSPECIFIED, // two tokens without text
		`{"done":true,"done_reason":"stop"}`:   spatev1.ErrorClass_ERROR_CLASS_EMPTY_OUTPUT,
	} {
		url, _ := templateServer(t, "application/x-ndjson", answer)
		client := newTestClient(t, Config{Endpoints: []string{url}, API: registry.TemplateName, Template: ollama, Model: "m"})
		var o Observation
		client.Do(t.Context(), Request{Body: []byte(`{}`)}, &o)
		got := spatev1.ErrorClass_ERROR_CLASS_UNSPECIFIED
		if o.Err != nil {
			got = o.Err.Class
		}
		if got != want && want != 0 {
			t.Errorf("%s: %v, want %v", answer, o.Err, want)
		}
	}
	if !json.Valid([]byte(lines[0])) {
		t.Error("the answer is not JSON lines")
	}
}

// TestForms sends a form with fields and a file, as a transcription wants it, and reads its stream. mime/multipart
// judges what was sent.
func TestForms(t *testing.T) {
	sound := []byte("RIFF\x00\x00\x00\x00WAVEfmt \r\n--spate\xe2\x82\xac")
	type sent struct{ model, stream, prompt, file, name, kind string }
	got := make(chan sent, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file, header, err := r.FormFile("file")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		content, _ := io.ReadAll(file)
		got <- sent{r.FormValue("model"), r.FormValue("stream"), r.FormValue("prompt"), string(content), header.Filename,
			header.Header.Get("Content-Type")}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"one\"}}]}\n\n"+
			"data: {\"choices\":[{\"delta\":{\"content\":\" two\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	spec := registry.Template{Path: "/v1/audio/transcriptions", Stream: registry.SSE, Text: "choices.0.delta.content",
		Finish: "choices.0.finish_reason", Form: &api.MultipartForm{
			Fields: map[string]string{"model": "{{.Model}}", "stream": "true", "prompt": "{{.OSL}}: {{.Text}}"},
			Files:  []api.FormFile{{Field: "file", Name: `a "b".wav`, Content: sound}},
		}}
	client := newTestClient(t, Config{Endpoints: []string{s.URL}, API: registry.TemplateName, Template: spec, Model: `m "1"`})
	var o Observation
	client.Do(t.Context(), Request{Body: client.AppendBody(nil, 2, func(dst []byte) []byte {
		return append(dst, `"a \"b\" \u00e9"`...)
	})}, &o)
	if o.Err != nil || o.TokenFrames != 2 || o.FirstToken == 0 || o.FinishReason != "stop" {
		t.Fatalf("%+v, %v", o, o.Err)
	}
	if got, want := <-got, (sent{`m "1"`, "true", `2: a "b" é`, string(sound), `a "b".wav`, "audio/wave"}); got != want {
		t.Errorf("sent %+v, want %+v", got, want)
	}
}
