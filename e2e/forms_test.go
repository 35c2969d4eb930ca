package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
)

const formPlan = `
name: forms
targets:
  - name: whisper
    endpoints: [%q]
    model: w
    api: template
    template:
      path: /v1/audio/transcriptions
      form: {model: "{{.Model}}", stream: "true"}
      files: [{field: file, path: speech.wav}]
      stream: sse
      text: choices.0.delta.content
      finish: choices.0.finish_reason
workloads: [{random: {isl: 1, osl: 1}}]
loads: [{concurrency: [2], requests: 10}]
`

// transcriber streams a token for each form that has the speech and asks for a stream.
func transcriber(t *testing.T, speech string) (url string, heard *atomic.Int64) {
	heard = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file, _, err := r.FormFile("file")
		if err != nil || r.FormValue("model") != "w" || r.FormValue("stream") != "true" {
			http.Error(w, fmt.Sprint("not the form: ", err), http.StatusBadRequest)
			return
		}
		if content, err := io.ReadAll(file); err != nil || string(content) != speech {
			http.Error(w, "not the speech", http.StatusBadRequest)
			return
		}
		heard.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"one\"},\"finish_reason\":\"stop\"}]}\n\n")
	}))
	t.Cleanup(s.Close)
	return s.URL, heard
}

// An audio file of the plan's folder is sent in each request, and its transcription is timed as a stream.
func TestTranscription(t *testing.T) {
	t.Parallel()
	const speech = "RIFF\x00\x01\x02WAVE"
	url, heard := transcriber(t, speech)
	dir := t.TempDir()
	plan, sound := filepath.Join(dir, "plan.yaml"), filepath.Join(dir, "speech.wav")
	if err := os.WriteFile(plan, fmt.Appendf(nil, formPlan, url), 0o600); err != nil {
		t.Fatal(err)
	}
	r := programs.Run(t, plan)
	const missing = "targets[0].template.files[0].path: "
	if code := r.Exit(); code != 2 || !strings.Contains(r.Stderr.String(), "plan.yaml:11:35: "+missing) {
		t.Errorf("without the file: exit %d: %s", code, r.Stderr.String())
	}
	if err := os.WriteFile(sound, []byte(speech), 0o600); err != nil {
		t.Fatal(err)
	}
	r = programs.Run(t, plan)
	r.MustExit(0)
	s := r.Results().Stages[0]
	if s.Requests.Completed != 10 || s.TTFT == nil || s.Streams.TokenFrames != 10 || heard.Load() < 10 {
		t.Errorf("%+v, %+v, %d forms", s.Requests, s.Streams, heard.Load())
	}
}
