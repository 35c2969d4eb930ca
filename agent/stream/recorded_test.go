package stream

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// TestRecordedAnswers plays answers that were recorded from real servers, byte by byte as they came. The name of a file
// begins with the server.
func TestRecordedAnswers(t *testing.T) {
	for file, want := range map[string]struct {
		api                                string
		input, output, cached, tokenFrames uint64
		textBytes                          uint64 // as encoded in JSON
		finish                             string
	}{
		"litellm-anthropic-tool.sse":  {"anthropic", 1, 5, 0, 5, 31, "tool_use"},
		"litellm-anthropic-tool.json": {"anthropic", 1, 5, 0, 1, 25, "tool_use"},
	} {
		t.Run(file, func(t *testing.T) {
			answer, err := os.ReadFile(filepath.Join("testdata/recorded", file))
			if err != nil {
				t.Fatal(err)
			}
			whole := filepath.Ext(file) == ".json"
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if w.Header().Set("Content-Type", "text/event-stream"); whole {
					w.Header().Set("Content-Type", "application/json")
				}
				_, _ = w.Write(answer)
			}))
			defer s.Close()
			o := ask(t, newTestClient(t, Config{
				API: want.api, Endpoints: []string{s.URL}, Model: "m", Whole: whole, Prompts: "text",
			}))
			if o.Err != nil || o.InputTokens != want.input || o.OutputTokens != want.output || !o.Usage ||
				o.CachedTokens != want.cached || o.TokenFrames != want.tokenFrames || o.TextBytes != want.textBytes ||
				o.FinishReason != want.finish || o.Undecided {
				o.Calls, o.Answer = nil, nil
				t.Errorf("%v: %+v", o.Err, o)
			}
		})
	}
}
