package stream

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/api"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// call is the request of a call as the server received it.
type call struct{ method, path, body, key string }

// callServer gives all calls the same answer. calls returns the calls received so far.
func callServer(t *testing.T, status int, answer string) (base string, calls func() []call) {
	t.Helper()
	var mu sync.Mutex
	var all []call
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		all = append(all, call{r.Method, r.URL.Path, string(b), r.Header.Get("Authorization")})
		mu.Unlock()
		w.WriteHeader(status)
		io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []call {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func TestModels(t *testing.T) {
	base, calls := callServer(t, 200, `{"object":"list","data":[
		{"id":"a","object":"model","owned_by":"vllm","root":"/models/a","max_model_len":4096,"permission":[{"id":"p"}]},
		{"id":"b","owned_by":"sglang","max_model_len":null},
		{"id":"c","owned_by":"tensorrt_llm"},
		{"id":"l","owned_by":"llamacpp","meta":{"n_vocab":1641,"n_ctx":4096,"n_ctx_train":8192}},
		{"id":"d","owned_by":"x","max_model_len":1000000000000000019884624838656},
		{"id":"\u202ee\u001b","max_model_len":-1}]}`)
	c := newTestClient(t, Config{Endpoints: []string{base + "/prefix/v1"}, APIKey: "k1"})
	got, err := c.Models(t.Context(), 0)
	want := []api.Model{{ID: "a", Owner: "vllm", MaxModelTokens: 4096}, {ID: "b", Owner: "sglang"},
		{ID: "c", Owner: "tensorrt_llm"}, {ID: "l", Owner: "llamacpp", MaxModelTokens: 4096}, {ID: "d", Owner: "x"}, {ID: "e"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if want := (call{"GET", "/prefix/v1/models", "", "Bearer k1"}); !slices.Equal(calls(), []call{want}) {
		t.Errorf("%v", calls())
	}
}

func TestVersion(t *testing.T) {
	for name, tt := range map[string]struct {
		paths map[string]string
		want  string
		asked int64
	}{
		"vLLM":   {map[string]string{"/version": `{"version":"0.9.1"}`}, "0.9.1", 1},
		"turned": {map[string]string{"/version": `{"version":"0.9\u202e1\u001b[1m"}`}, "0.9 1 [1m", 1},
		"SGLang": {map[string]string{"/get_server_info": `{"model_path":"m","api_key":"hunter2","version":"0.4.6"}`},
			"0.4.6", 2},
		"neither": {nil, "", 2},
	} {
		var asked atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if tt.paths[r.URL.Path] == "" {
				http.NotFound(w, r)
			}
			io.WriteString(w, tt.paths[r.URL.Path])
		}))
		got, err := newTestClient(t, Config{Endpoints: []string{s.URL}}).Version(t.Context(), 0)
		s.Close()
		if got != tt.want || asked.Load() != tt.asked || (err == nil) != (tt.want != "") {
			t.Errorf("%s: %q after %d requests: %v", name, got, asked.Load(), err)
		}
	}
}

func TestTokenize(t *testing.T) {
	for answer, want := range map[string]api.Tokens{
		`{"count":3,"max_model_len":4096,"tokens":[1,2,3],"token_strs":null}`: {Count: 3, MaxModelTokens: 4096}, // vLLM
		`{"tokens":[1,2,3],"count":3,"max_model_len":1e30}`:                   {Count: 3},                       // SGLang
		`{"tokens":[1,2]}`: {Count: 2},
	} {
		base, calls := callServer(t, 200, answer)
		c := newTestClient(t, Config{Endpoints: []string{base + "/v1"}, Model: "m",
			Body: map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": false}, "temperature": 0.0}})
		if got, err := c.Tokenize(t.Context(), 0, `a "b"`); err != nil || got != want {
			t.Errorf("%s: %v, %v", answer, got, err)
		}
		if got, err := c.TokenizeChat(t.Context(), 0, "a"); err != nil || got != want {
			t.Errorf("%s: %v, %v", answer, got, err)
		}
		if wanted := []call{
			{"POST", "/tokenize", `{"model":"m","prompt":"a \"b\""}`, ""},
			{"POST", "/tokenize", `{"chat_template_kwargs":{"enable_thinking":false},"messages":[{"content":"a","role":"user"}],"model":"m"}`, ""},
		}; !slices.Equal(calls(), wanted) {
			t.Errorf("%v", calls())
		}
	}
}

// llama.cpp's server takes the text of /tokenize as content, and no messages; it returns no tokens of other fields.
func TestTokenizeOfLlamaCpp(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, string(body))
		answer := `{"tokens":[]}`
		if strings.Contains(string(body), `"content":"a b"`) {
			answer = `{"tokens":[1,354,357]}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer s.Close()
	c := newTestClient(t, Config{Endpoints: []string{s.URL}, Model: "m"})
	for range 2 {
		if got, err := c.Tokenize(t.Context(), 0, "a b"); err != nil || got.Count != 3 {
			t.Errorf("%v, %v", got, err)
		}
	}
	content := `{"add_special":true,"content":"a b"}`
	if want := []string{`{"model":"m","prompt":"a b"}`, content, content}; !slices.Equal(asked, want) {
		t.Errorf("asked %q", asked)
	}
	if got, err := c.TokenizeChat(t.Context(), 0, "a"); err == nil {
		t.Errorf("a chat: %v", got)
	}
}

// TestMeasureWhereAllAnswersAreStreams: a server that refuses answers in one piece is asked for streams, and from then
// on for nothing else.
func TestMeasureWhereAllAnswersAreStreams(t *testing.T) {
	var refused, streamed atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body["stream"] != true {
			refused.Add(1)
			http.Error(w, "only streams are supported", http.StatusBadRequest)
			return
		}
		streamed.Add(1)
		io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n")
	}))
	defer s.Close()
	c := newTestClient(t, Config{Endpoints: []string{s.URL}, Model: "m"})
	for range 3 {
		if n, err := c.Measure(t.Context(), 0, "a"); n != 12 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if refused.Load() != 1 || streamed.Load() != 3 {
		t.Errorf("%d refused, %d streamed", refused.Load(), streamed.Load())
	}
	whole := newTestClient(t, Config{Endpoints: []string{s.URL}, Model: "m", Whole: true})
	if _, err := whole.Measure(t.Context(), 0, "a"); !Refused(err) || streamed.Load() != 3 {
		t.Errorf("a plan without streams: %v", err)
	}
}

func TestMeasure(t *testing.T) {
	for name, tt := range map[string]struct {
		config     Config
		path, body string
	}{
		"chat": {Config{Model: "m", ExactOutput: true,
			Body: map[string]any{"ignore_eos": true, "stream_options": map[string]any{}, "n": 2.0, "tools": []any{}}},
			"/v1/chat/completions", `{"max_tokens":1,"messages":[{"content":"a <b>","role":"user"}],"model":"m","stream":false,"tools":[]}`},
		"completions": {Config{API: "completions", Model: "m", Body: map[string]any{"max_completion_tokens": 9.0,
			"max_tokens": 9.0}},
			"/v1/completions", `{"max_completion_tokens":1,"model":"m","prompt":"a <b>","stream":false}`},
	} {
		base, calls := callServer(t, 200, `{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":1}}`)
		tt.config.Endpoints = []string{base}
		got, err := newTestClient(t, tt.config).Measure(t.Context(), 0, "a <b>")
		if err != nil || got != 12 {
			t.Errorf("%s: %d, %v", name, got, err)
		}
		sent := calls()[0]
		if sent.path != tt.path || !sameJSON(t, sent.body, tt.body) {
			t.Errorf("%s: %v", name, sent)
		}
	}
}

// sameJSON reports whether two JSON texts have the same value.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var texts [2]string
	for i, text := range []string{a, b} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(again)
	}
	return texts[0] == texts[1]
}

// TestCallsThatFail checks the errors for unusable answers, and that they contain no secret.
func TestCallsThatFail(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		answer string
		class  spatev1.ErrorClass
		want   string
	}{
		"refused": {401, "bad key sk-hunter2", spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS,
			"401 Unauthorized: bad key ***"},
		"redirected": {307, "", spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS, "307"},
		"no JSON":    {200, "<html>", spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME, "it is a web page (HTML)"},
		"unexpected JSON": {200, `{"data":7,"usage":7,"count":"x"}`, spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME,
			"the answer does not match this API: "},
		"too long": {200, `{"x":"` + strings.Repeat("x", callLimit) + `"}`, spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME,
			"longer than 4 MiB"},
	} {
		base, _ := callServer(t, tt.status, tt.answer)
		c := newTestClient(t, Config{Endpoints: []string{base}, APIKey: "sk-hunter2"})
		_, models := c.Models(t.Context(), 0)
		_, tokens := c.Tokenize(t.Context(), 0, "a")
		_, measured := c.Measure(t.Context(), 0, "a")
		for _, err := range []error{models, tokens, measured} {
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Class != tt.class || !strings.Contains(e.Message, tt.want) ||
				strings.Contains(e.Message, "hunter2") || len(e.Message) > messageLimit {
				t.Errorf("%s: %v", name, err)
			}
			if ok && tt.class == spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS && e.HTTPStatus != tt.status {
				t.Errorf("%s: status %d", name, e.HTTPStatus)
			}
		}
	}
	base, _ := callServer(t, 200, `{"choices":[]}`)
	c := newTestClient(t, Config{Endpoints: []string{base}})
	if _, err := c.Measure(t.Context(), 0, "a"); err == nil ||
		!strings.Contains(err.Error(), "no usage with prompt tokens") {
		t.Errorf("no usage: %v", err)
	}
	if _, err := c.Tokenize(t.Context(), 0, "a"); err == nil ||
		!strings.Contains(err.Error(), "neither count nor tokens") {
		t.Errorf("no count: %v", err)
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	s := testserver.NewRaw(t, answer()) // accepts requests and never answers
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := c.Models(ctx, 0)
	if e, ok := errors.AsType[*Error](err); !ok || e.Class != spatev1.ErrorClass_ERROR_CLASS_TIMEOUT {
		t.Errorf("%v", err)
	}
	over, end := context.WithDeadline(t.Context(), time.Now())
	defer end()
	_, err = c.Models(over, 0) // opens no connection
	if e, ok := errors.AsType[*Error](err); !ok || e.Class != spatev1.ErrorClass_ERROR_CLASS_TIMEOUT {
		t.Errorf("%v", err)
	}
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	_, err = c.Models(cancelled, 0)
	if _, ok := errors.AsType[*Error](err); ok || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	s.Close()
	// A new client: the first one may have an idle connection that was opened after its context had ended.
	_, err = newTestClient(t, Config{Endpoints: []string{s.URL}}).Models(t.Context(), 0)
	if e, ok := errors.AsType[*Error](err); !ok || e.Class != spatev1.ErrorClass_ERROR_CLASS_CONNECT {
		t.Errorf("%v", err)
	}
}

// lateContext has a deadline that has passed, but is done only some time later, as a context's timer may be.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// TestCallersDeadlineIsNotAConnectTimeout checks that the caller's deadline is not reported as the connect timeout when
// net notices that deadline before the caller's context does.
func TestCallersDeadlineIsNotAConnectTimeout(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	server := testserver.NewRaw(t, answer())
	_, err := newTestClient(t, Config{Endpoints: []string{server.URL}}).Models(lateContext{ctx}, 0)
	if e, ok := errors.AsType[*Error](err); !ok || e.Class != spatev1.ErrorClass_ERROR_CLASS_TIMEOUT {
		t.Errorf("%v", err)
	}
}

// TestFirstRequestAfterACall checks that a connection opened by a call does not count as opened by a request.
func TestFirstRequestAfterACall(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			io.WriteString(w, `{"data":[]}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, tokenFrame("a")+doneFrame)
	}))
	defer s.Close()
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	if _, err := c.Models(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if o := ask(t, c); o.Err != nil || o.Connected || o.TokenFrames != 1 {
		t.Errorf("connected %v, %d frames, %v", o.Connected, o.TokenFrames, o.Err)
	}
}

// bodyTests are default bodies, bodies with exact output, and bodies of requests that count a prompt.
var bodyTests = []struct{ api, prompts, plain, exact, probe string }{
	{
		"responses", "", `{"input":"x","max_output_tokens":8,"model":"m","store":false,"stream":true}`,
		`{"ignore_eos":true,"input":"x","max_output_tokens":8,"model":"m","store":false,"stream":true}`,
		`{"input":[{"role":"user","content":"x"}],"max_output_tokens":1,"model":"m","store":false,"stream":false}`,
	},
	{
		"sglang", "text", `{"sampling_params":{"max_new_tokens":8},"stream":true,"text":"x"}`,
		`{"sampling_params":{"ignore_eos":true,"max_new_tokens":8,"min_new_tokens":8},"stream":true,"text":"x"}`,
		`{"sampling_params":{"max_new_tokens":1},"stream":false,"text":"x"}`,
	},
	{
		"sglang", "token_ids", `{"input_ids":"x","sampling_params":{"max_new_tokens":8},"stream":true}`,
		`{"input_ids":"x","sampling_params":{"ignore_eos":true,"max_new_tokens":8,"min_new_tokens":8},"stream":true}`,
		`{"input_ids":"x","sampling_params":{"max_new_tokens":1},"stream":false}`,
	},
	{
		"tgi", "", `{"inputs":"x","parameters":{"details":true,"max_new_tokens":8}}`,
		`{"inputs":"x","parameters":{"details":true,"ignore_eos_token":true,"max_new_tokens":8}}`,
		`{"inputs":"x","parameters":{"details":true,"max_new_tokens":1}}`,
	},
	{
		"triton", "", `{"bad_words":"","max_tokens":8,"stop_words":"","stream":true,"text_input":"x"}`,
		`{"bad_words":"","max_tokens":8,"min_length":8,"min_tokens":8,"stop_words":"","stream":true,"text_input":"x"}`,
		`{"bad_words":"","max_tokens":1,"stop_words":"","stream":true,"text_input":"x"}`,
	},
	{
		"anthropic", "", `{"max_tokens":8,"messages":"x","model":"m","stream":true}`,
		`{"ignore_eos":true,"max_tokens":8,"messages":"x","min_tokens":8,"model":"m","stream":true}`,
		`{"max_tokens":1,"messages":[{"role":"user","content":"x"}],"model":"m","stream":false}`,
	},
	{
		"gemini", "", `{"contents":"x","generationConfig":{"maxOutputTokens":8}}`,
		`{"contents":"x","generationConfig":{"maxOutputTokens":8}}`,
		`{"contents":[{"role":"user","parts":[{"text":"x"}]}],"generationConfig":{"maxOutputTokens":1}}`,
	},
	{
		"bedrock", "", `{"inferenceConfig":{"maxTokens":8},"messages":"x"}`,
		`{"inferenceConfig":{"maxTokens":8},"messages":"x"}`,
		`{"inferenceConfig":{"maxTokens":1},"messages":[{"role":"user","content":[{"text":"x"}]}]}`,
	},
}

func TestDialectBodies(t *testing.T) {
	prompt := func(dst []byte) []byte { return append(dst, `"x"`...) }
	for _, tt := range bodyTests {
		config := Config{Endpoints: []string{"http://h"}, API: tt.api, Prompts: tt.prompts, Model: "m"}
		if got := newTestClient(t, config).AppendBody(nil, 8, prompt); string(got) != tt.plain {
			t.Errorf("%s:\n got %s\nwant %s", tt.api, got, tt.plain)
		}
		config.ExactOutput = true
		if got := newTestClient(t, config).AppendBody(nil, 8, prompt); string(got) != tt.exact {
			t.Errorf("%s, exact:\n got %s\nwant %s", tt.api, got, tt.exact)
		}
		base, calls := callServer(t, 200, "{}")
		config.Endpoints = []string{base}
		_, err := newTestClient(t, config).Measure(t.Context(), 0, "x")
		if err == nil || !sameJSON(t, calls()[0].body, tt.probe) {
			t.Errorf("%s, probe: %v\n got %s\nwant %s", tt.api, err, calls()[0].body, tt.probe)
		}
	}
}

// TestDescriptions checks the calls for models, version and tokens of the other APIs.
func TestDescriptions(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers := map[string]string{
			"GET /p/info":                         `{"model_id":"m","max_total_tokens":4096,"version":"3.0.1","docker_label":"x"}`,
			"POST /p/tokenize":                    `[{"id":1,"text":"a","start":0,"stop":1},{"id":2,"text":"b","start":1,"stop":2}]`,
			"GET /p/v2/models/m":                  `{"name":"m","versions":["1"],"platform":"ensemble"}`,
			"GET /p/v2":                           `{"name":"triton","version":"2.50.0"}`,
			"POST /p/v1/messages/count_tokens":    `{"input_tokens":9}`,
			"GET /p/v1beta/models/m":              `{"name":"models/m","inputTokenLimit":1000,"outputTokenLimit":24}`,
			"POST /p/v1beta/models/m:countTokens": `{"totalTokens":7}`,
			"POST /p/model/m/count-tokens":        `{"inputTokens":8}`,
		}
		answer, known := answers[r.Method+" "+r.URL.Path]
		if !known {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(answer))
	}))
	defer s.Close()
	for apiName, want := range map[string]struct {
		model   api.Model
		version string
		tokens  uint64
	}{
		"tgi":       {api.Model{ID: "m", Owner: "tgi", MaxModelTokens: 4096}, "3.0.1", 2},
		"triton":    {api.Model{ID: "m", Owner: "triton"}, "2.50.0", 0},
		"anthropic": {api.Model{}, "", 9},
		"gemini":    {api.Model{ID: "m", MaxModelTokens: 1024}, "", 7},
		"bedrock":   {api.Model{}, "", 8},
	} {
		c := newTestClient(t, Config{Endpoints: []string{s.URL + "/p"}, API: apiName, Model: "m"})
		models, err := c.Models(t.Context(), 0)
		if want.model.ID != "" && (err != nil || !slices.Equal(models, []api.Model{want.model})) {
			t.Errorf("%s: %v, %v", apiName, models, err)
		}
		if version, err := c.Version(t.Context(), 0); version != want.version ||
			(err == nil) != (version != "" || apiName == "gemini") { // which has no version to tell
			t.Errorf("%s: version %q, %v", apiName, version, err)
		}
		for _, count := range []func() (api.Tokens, error){
			func() (api.Tokens, error) { return c.Tokenize(t.Context(), 0, "a b") },
			func() (api.Tokens, error) { return c.TokenizeChat(t.Context(), 0, "a b") },
		} {
			if got, err := count(); got.Count != want.tokens || (err == nil) != (want.tokens > 0) {
				t.Errorf("%s: %v, %v", apiName, got, err)
			}
		}
	}
}

// TestDescriptionsByOtherRoutes checks servers that have only another API's routes.
func TestDescriptionsByOtherRoutes(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			_, _ = w.Write([]byte(`{"data":[{"id":"m","owned_by":"vllm"}]}`))
		case "/tokenize":
			_, _ = w.Write([]byte(`{"count":5}`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer s.Close()
	c := newTestClient(t, Config{Endpoints: []string{s.URL}, API: "anthropic", Model: "m"})
	models, err := c.Models(t.Context(), 0)
	if err != nil || len(models) != 1 || models[0].Owner != "vllm" {
		t.Errorf("%v, %v", models, err)
	}
	if got, err := c.TokenizeChat(t.Context(), 0, "a"); err != nil || got.Count != 5 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestMeasureByAStream checks how a prompt's tokens are counted with an API that can only stream.
func TestMeasureByAStream(t *testing.T) {
	special := tgiChunk(1, `"</s>"`, "true", `""`,
		`{"finish_reason":"length","generated_tokens":1,"input_length":11,"seed":null}`)
	for name, tt := range map[string]struct {
		events []event
		want   uint64
		err    string
	}{
		"token":            {forms["tgi"].stream(), promptTokens, ""},
		"token of no text": {[]event{special}, promptTokens, ""},
		"older server": {[]event{tgiChunk(1, `"a"`, "false", `"a"`,
			`{"finish_reason":"length","generated_tokens":1}`)}, 0, "no usage with prompt tokens"},
		"error": {[]event{forms["tgi"].failure}, 0, "out of memory"},
	} {
		s := testserver.NewRaw(t, answer(chunkedHead, chunk(sse(tt.events, "\n", "")), lastChunk))
		got, err := newTestClient(t, Config{Endpoints: []string{s.URL}, API: "tgi"}).Measure(t.Context(), 0, "a")
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
}
