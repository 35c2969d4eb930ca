package ready

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spate-load/spate/agent/enginetest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// picky is a server that refuses requests whose body contains a text.
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

// If a server refuses prompts of token IDs, the error before the load says so, and what to set.
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
