package ready

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// fakeServer counts tokens in a way that the test sets.
type fakeServer struct {
	models   string // answer of /v1/models; empty: 404
	version  string // answer of /version; empty: 404
	special  int    // tokens at the start of every prompt
	template int    // further tokens of the chat template
	feed     int    // tokens of a line feed
	// extra is how many tokens beyond one a word has.
	extra func(word string, first bool) int
	// merged makes one token of two neighbours.
	merged func(before, word string) bool
	// joins makes one token of the end of a line and the next word, if that starts with an a.
	joins bool

	tokenizer bool // there is /tokenize
	chats     bool // /tokenize accepts messages
	usage     bool // answers report usage
	limit     int  // tokens of prompt and output together; 0: none

	reads    []string // fields of exact outputs that it reads, and so checks the types of
	refuses  []string // unknown fields, which it rejects
	drops    int64    // trials from the second on whose connections it closes without an answer
	short    int      // tokens of an output that is not forced; 0: as many as requested
	running  bool     // sends running usage on request
	software string   // fingerprint of its answers
	gateway  string   // version of LiteLLM in front of it

	tokenized, generated, tried atomic.Int64
}

// count counts a text's tokens.
func (s *fakeServer) count(text string) int {
	n, before, first := 0, "", true
	for _, line := range strings.SplitAfter(text, "\n") {
		for word := range strings.FieldsSeq(line) {
			n++
			if s.extra != nil {
				n += s.extra(word, first)
			}
			if s.merged != nil && !first && s.merged(before, word) {
				n--
			}
			if s.joins && first && before != "" && word[0] == 'a' && len(line) > 10 && len(before)%2 == 0 {
				n--
			}
			before, first = word, false
		}
		if strings.HasSuffix(line, "\n") {
			n, first = n+s.feed, true
		}
	}
	return n
}

// chat returns the number of tokens of a prompt.
func (s *fakeServer) chat(text string) int { return s.special + s.template + s.count(text) }

// asked holds the fields that a body may have.
type asked struct {
	Model    string
	Prompt   *string
	Messages []struct{ Role, Content string }
	Stream   *bool
	MaxTok   int             `json:"max_tokens"`
	MaxOut   int             `json:"max_completion_tokens"`
	EOS      json.RawMessage `json:"ignore_eos"`
	Least    json.RawMessage `json:"min_tokens"`
	Tools    json.RawMessage
	Format   json.RawMessage `json:"response_format"`
	Colour   json.RawMessage
	Options  *struct {
		Running bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
}

// running reports whether a request asks for running usage.
func (q *asked) running() bool { return q.Options != nil && q.Options.Running }

// refusal says why the server rejects a request, or returns "".
func (s *fakeServer) refusal(q asked) string {
	for name, value := range map[string]json.RawMessage{"ignore_eos": q.EOS, "min_tokens": q.Least, "tools": q.Tools,
		"response_format": q.Format, "colour": q.Colour} {
		switch {
		case value == nil:
		case slices.Contains(s.refuses, name):
			return "unknown field " + name
		case slices.Contains(s.reads, name) && value[0] == '"':
			return name + " has a wrong type"
		}
	}
	if q.MaxTok > 0 && slices.Contains(s.refuses, "max_tokens") {
		return "use max_completion_tokens instead of max_tokens"
	}
	if q.Options != nil && slices.Contains(s.refuses, "stream_options") {
		return "stream_options: extra inputs are not permitted"
	}
	if q.running() && slices.Contains(s.refuses, "continuous_usage_stats") {
		return "unknown field continuous_usage_stats"
	}
	return ""
}

// trial streams the answer to a trial.
func (s *fakeServer) trial(w http.ResponseWriter, q asked) {
	if n := s.tried.Load(); n > 1 && n <= 1+s.drops {
		panic(http.ErrAbortHandler)
	}
	if why := s.refusal(q); why != "" {
		http.Error(w, why, http.StatusBadRequest)
		return
	}
	n := q.MaxTok + q.MaxOut
	forced := len(s.reads) > 0 && (string(q.EOS) == "true" || string(q.Least) == "16")
	if s.short > 0 && !forced {
		n = s.short
	}
	if s.gateway != "" {
		w.Header().Set("X-Litellm-Version", s.gateway)
	}
	for i := range n {
		fmt.Fprintf(w, `data: {"choices":[{}]`)
		if s.running && q.running() {
			fmt.Fprintf(w, `,"usage":{"completion_tokens":%d}`, i+1)
		}
		fmt.Fprintf(w, "}\n\n")
	}
	if s.usage {
		fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"completion_tokens\":%d},\"system_fingerprint\":%q}\n\n",
			n, s.software)
	}
	fmt.Fprintf(w, "data: [DONE]\n\n")
}

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q asked
	if r.Method == http.MethodPost && json.NewDecoder(r.Body).Decode(&q) != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	switch {
	case r.URL.Path == "/v1/models" && s.models != "":
		_, _ = io.WriteString(w, s.models)
	case r.URL.Path == "/version" && s.version != "":
		reply(w, map[string]string{"version": s.version})
	case r.URL.Path == "/tokenize" && s.tokenizer:
		s.tokenized.Add(1)
		s.tokenize(w, q)
	case strings.HasSuffix(r.URL.Path, "/completions") && q.Stream != nil && *q.Stream && q.MaxTok+q.MaxOut == trialTokens:
		s.tried.Add(1)
		s.trial(w, q)
	case strings.HasSuffix(r.URL.Path, "/completions") && (q.Stream == nil || *q.Stream || q.MaxTok+q.MaxOut != 1):
		http.Error(w, "more than one token was asked for", http.StatusBadRequest)
	case r.URL.Path == "/v1/chat/completions":
		s.generated.Add(1)
		s.answer(w, s.chat(q.Messages[0].Content))
	case r.URL.Path == "/v1/completions":
		s.generated.Add(1)
		s.answer(w, s.special+s.count(*q.Prompt))
	default:
		http.NotFound(w, r)
	}
}

func (s *fakeServer) tokenize(w http.ResponseWriter, q asked) {
	switch {
	case q.Prompt != nil:
		reply(w, map[string]any{"count": s.special + s.count(*q.Prompt), "max_model_len": 4096})
	case s.chats:
		reply(w, map[string]any{"count": s.chat(q.Messages[0].Content), "max_model_len": 4096})
	default:
		http.Error(w, "prompt is missing", http.StatusUnprocessableEntity)
	}
}

func (s *fakeServer) answer(w http.ResponseWriter, tokens int) {
	if s.limit > 0 && tokens+1 > s.limit {
		http.Error(w, "too long for the model", http.StatusBadRequest)
		return
	}
	answer := map[string]any{"choices": []any{}}
	if s.usage {
		answer["usage"] = map[string]int{"prompt_tokens": tokens, "completion_tokens": 1}
	}
	reply(w, answer)
}

// reply answers with JSON. It ignores errors: the client may be gone.
func reply(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

// found prepares a stage against a server.
func found(t testing.TB, s *fakeServer, stage *spatev1.Stage) (*spatev1.Found, error) {
	t.Helper()
	return Find(t.Context(), clientOf(t, s, stage.GetTarget()), stage, nil)
}

// clientOf starts a server and returns a client of it. Both stop at the end of the test.
func clientOf(t testing.TB, s *fakeServer, target *spatev1.Target) targetClient {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := stream.New(stream.Config{
		Endpoints: []string{server.URL}, API: target.GetApi(), Prompts: target.GetPrompts(), Model: target.GetModel(),
		Body: target.GetBody().AsMap(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// stageOf returns a stage with random prompts.
func stageOf(target *spatev1.Target) *spatev1.Stage {
	target.Name = "t"
	return &spatev1.Stage{Target: target,
		Workload: &spatev1.Workload{Content: &spatev1.Workload_Random{Random: &spatev1.RandomContent{Isl: 3000,
			Osl: 150}}}}
}

// listing returns an answer of /v1/models.
func listing(id, owner string, most int) string {
	b, err := json.Marshal(map[string]any{"object": "list",
		"data": []any{map[string]any{"id": id, "owned_by": owner, "max_model_len": most}}})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// templateOf returns how many tokens the server adds to each prompt, 0 if that is not known.
func templateOf(f *spatev1.Found) uint32 { return f.GetPreparation().GetTemplateTokens() }
