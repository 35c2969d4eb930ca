package ready

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/spate-load/spate/agent/enginetest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/dataset"
	"github.com/spate-load/spate/workload/store"
)

// picky is a chat server that refuses requests whose body has a text.
type picky struct {
	refuses string
	status  int // 0: 400
}

func (p picky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch {
	case r.Method != http.MethodPost:
		http.NotFound(w, r)
	case strings.Contains(string(body), p.refuses):
		http.Error(w, "not supported: "+p.refuses, cmp.Or(p.status, http.StatusBadRequest))
	default:
		_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}
}

// rowsOf puts a file of rows into the directory that a stage's datasets are read from.
func rowsOf(t *testing.T, dir string, w *spatev1.Workload, lines string) (d *spatev1.Dataset) {
	t.Helper()
	datasets, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = datasets.Build(func(dst *os.File) (string, error) {
		d, _, err = dataset.Build(t.Context(), dst, strings.NewReader(lines), w, dataset.Options{Name: "rows"})
		return d.GetSha256(), err
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A server that refuses prompts of token IDs is told before the load, with what to set.
func TestRefusedTokenIDs(t *testing.T) {
	const says = "the server refuses prompts that are token ids, and takes text: set the target's prompts to text"
	for name, tt := range map[string]struct {
		prompts, refuses string
		status           int
		says             string
	}{
		"refused":        {"token_ids", `"prompt":[`, 0, says},
		"failed":         {"token_ids", `"prompt":[`, 500, says},
		"not found":      {"token_ids", `"prompt":[`, 404, says},
		"overloaded":     {"token_ids", `"prompt":[`, 503, ""},
		"taken":          {"token_ids", "nothing", 0, ""},
		"text":           {"text", `"prompt":[`, 0, ""},
		"all is refused": {"token_ids", `"prompt":`, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(picky{tt.refuses, tt.status})
			defer server.Close()
			stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, enginetest.New(t, 0, 0))
			stage.Target.Endpoints, stage.Target.Api, stage.Target.Prompts = []string{server.URL}, "completions", tt.prompts
			s, err := Prepare(t.Context(), enginetest.AssignOf(stage, 0), nil, resourcesIn(t.TempDir()))
			switch {
			case err == nil && tt.says == "":
				s.Close()
			case err == nil || tt.says == "" || !strings.Contains(err.Error(), tt.says):
				t.Errorf("got %v, want %q", err, tt.says)
			}
		})
	}
}

// A server that refuses what some requests have besides text is told before the load, with the field, whether the
// request has it from its part of a mixture, its row, or its images.
func TestRefusedExtras(t *testing.T) {
	const toolRow = `{"messages": [{"role": "user", "content": "a"}], "tools": [{"function": {"name": "f"}}]}` + "\n"
	const imageRow = `{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"},
		{"type": "image_url", "image_url": {"url": "http://h/a.png"}}]}]}`
	for name, tt := range map[string]struct{ workload, rows, refuses, says string }{
		"a part's body": {
			`{"mix": {"parts": [{"weight": 1, "workload": {"name": "a", "random": {"isl": 1, "osl": 1}}},
			{"weight": 1, "body": {"response_format": {"type": "json_object"}}, "workload": {"name": "b", "random": {"isl": 1, "osl": 1}}}]}}`,
			"", "response_format", "part b: the server refuses requests with response_format, and takes them without"},
		"a part's body, by the part's model": {
			`{"mix": {"parts": [{"weight": 1, "workload": {"name": "a", "random": {"isl": 1, "osl": 1}}},
			{"weight": 1, "model": "x", "body": {"tools": []}, "workload": {"name": "b", "random": {"isl": 1, "osl": 1}}}]}}`,
			"", `"model":"x","stream":true,"stream_options":{"include_usage":true},"tools"`, "part b: the server refuses requests with tools"},
		"a part's body, by the first of the part's models": {
			`{"mix": {"parts": [{"weight": 1, "workload": {"name": "a", "random": {"isl": 1, "osl": 1}}},
			{"weight": 1, "models": {"prefix": "x", "count": 2}, "body": {"tools": []}, "workload": {"name": "b", "random": {"isl": 1, "osl": 1}}}]}}`,
			"", `"model":"x0","stream":true,"stream_options":{"include_usage":true},"tools"`, "part b: the server refuses requests with tools"},
		"a part's images, by the part's model": {
			`{"mix": {"parts": [{"weight": 1, "workload": {"name": "a", "random": {"isl": 1, "osl": 1}}},
			{"weight": 1, "model": "x", "workload": {"name": "b", "random": {"isl": 1, "osl": 1, "images": {"urls": ["http://h/a.png"]}}}}]}}`,
			"", `h/a.png"},"type":"image_url"}],"role":"user"}],"model":"x"`, "part b: the server refuses requests with an image"},
		"images": {`{"random": {"isl": 1, "osl": 1, "images": {"width": 8, "height": 8}}}`, "", "image_url",
			"the server refuses requests with an image (image_url in messages), and takes them without"},
		"a row's tools": {`{"jsonl": {"path": "x", "osl": 1}}`, toolRow, "tools",
			"the server refuses requests with tools, and takes them without"},
		"a row's image": {`{"jsonl": {"path": "x", "osl": 1}}`, strings.ReplaceAll(imageRow, "\n", "") + "\n", "h/a.png",
			"the server refuses requests with an image"},
		"taken":          {`{"jsonl": {"path": "x", "osl": 1}}`, toolRow, "images", ""},
		"all is refused": {`{"jsonl": {"path": "x", "osl": 1}}`, toolRow, "messages", ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(picky{tt.refuses, 0})
			defer server.Close()
			w := &spatev1.Workload{}
			if err := protojson.Unmarshal([]byte(tt.workload), w); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, enginetest.New(t, 0, 0))
			stage.Target.Endpoints, stage.Target.Api, stage.Workload = []string{server.URL}, "chat", w
			if tt.rows != "" {
				stage.Dataset = rowsOf(t, dir, w, tt.rows)
			}
			s, err := Prepare(t.Context(), enginetest.AssignOf(stage, 0), nil, resourcesIn(dir))
			switch {
			case err == nil && tt.says == "":
				s.Close()
			case err == nil || tt.says == "" || !strings.Contains(err.Error(), tt.says):
				t.Errorf("got %v, want %q", err, tt.says)
			}
		})
	}
}
