package ready

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// TestServersThatAnswerInTheOtherForm checks that a server that ignores whether a stream was requested is noted.
func TestServersThatAnswerInTheOtherForm(t *testing.T) {
	const (
		whole  = `{"choices":[{"message":{"content":"yes"}}],"usage":{"prompt_tokens":1,"completion_tokens":16}}`
		events = `data: {"choices":[{"delta":{"content":"yes"}}]}` + "\n\ndata: [DONE]\n\n"
	)
	for _, tt := range []struct {
		answer  string
		streams bool
		note    string
	}{
		{events, true, ""},
		{whole, true, "answers in one piece although a stream was requested"},
		{whole, false, ""},
		{events, false, "streams although the target asks for answers in one piece"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				io.WriteString(w, tt.answer)
				return
			}
			http.NotFound(w, r)
		}))
		client, err := stream.New(stream.Config{Endpoints: []string{s.URL}, Model: "m", Whole: !tt.streams})
		if err != nil {
			t.Fatal(err)
		}
		// The plan forces exact outputs, so that nothing but the form is left to try.
		target := &spatev1.Target{Api: "chat", Model: "m", Tokenizer: "words", Stream: &tt.streams, ExactOutput: "always"}
		if tt.streams {
			target.ExactOutput = "auto"
		}
		f, err := Find(t.Context(), client, stageOf(target), nil)
		client.Close()
		s.Close()
		notes := strings.Join(f.GetPreparation().GetNotes(), " ")
		if err != nil || !strings.Contains(notes, tt.note) || strings.Contains(notes, "although") != (tt.note != "") {
			t.Errorf("streams %v, %s: %q, %v", tt.streams, tt.answer, notes, err)
		}
	}
}
