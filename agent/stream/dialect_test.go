package stream

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/registry"
)

// TestEveryDialectHasAForm checks that the conformance suite covers every dialect.
func TestEveryDialectHasAForm(t *testing.T) {
	for _, apiName := range registry.Names() {
		if _, ok := forms[apiName]; !ok {
			t.Errorf("forms_test.go has no form of %s", apiName)
		}
	}
}

func TestDialectURLs(t *testing.T) {
	for apiName, path := range map[string]string{
		"chat": "/v1/chat/completions", "completions": "/v1/completions", "responses": "/v1/responses",
		"anthropic": "/v1/messages",
		"sglang":    "/generate", "tgi": "/generate_stream", "triton": "/v2/models/en%2Fs%20emble/generate_stream",
	} {
		for _, base := range []string{"", "/", "/v1", "/v1/", path, "/v2"} {
			for _, prefix := range []string{"", "/a", "/a%2Fb"} {
				c := newTestClient(t, Config{Endpoints: []string{"http://h:1" + prefix + base}, API: apiName,
					Model: "en/s emble"})
				if got := c.endpoints[0].String(); got != "http://h:1"+prefix+path {
					t.Errorf("%s, %s%s: %s", apiName, prefix, base, got)
				}
				if got := c.at(0, "/v1/models").String(); got != "http://h:1"+prefix+"/v1/models" {
					t.Errorf("%s, %s%s: models at %s", apiName, prefix, base, got)
				}
				if got := c.at(0, "/tokenize").String(); got != "http://h:1"+prefix+"/tokenize" {
					t.Errorf("%s, %s%s: tokenize at %s", apiName, prefix, base, got)
				}
			}
		}
	}
}

// Bedrock's models have colons in their names. Gemini's path has a version, unless the endpoint's URL has one.
func TestCloudURLs(t *testing.T) {
	for _, tt := range []struct{ api, base, model, want, asked string }{
		{"bedrock", "https://bedrock-runtime.eu-west-1.amazonaws.com", "anthropic.claude-v1:0",
			"https://bedrock-runtime.eu-west-1.amazonaws.com/model/anthropic.claude-v1%3A0/converse-stream", "/x"},
		{"bedrock", "http://h/a/model/m/converse-stream", "m", "http://h/a/model/m/converse-stream", "/a/x"},
		{"gemini", "https://h", "gemini-2.5-pro",
			"https://h/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", "/v1beta/x"},
		{"gemini", "https://h/v1beta/models/m:streamGenerateContent", "m",
			"https://h/v1beta/models/m:streamGenerateContent?alt=sse", "/v1beta/x"},
		{"gemini", "https://h/v1/projects/p/locations/l/publishers/google", "m",
			"https://h/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent?alt=sse",
			"/v1/projects/p/locations/l/publishers/google/x"},
	} {
		c := newTestClient(t, Config{Endpoints: []string{tt.base}, API: tt.api, Model: tt.model})
		if got := c.endpoints[0].String(); got != tt.want {
			t.Errorf("%s, %s: %s, want %s", tt.api, tt.base, got, tt.want)
		}
		if got := c.at(0, c.dialect.Version+"/x").RequestURI(); got != tt.asked {
			t.Errorf("%s, %s: a question goes to %s, want %s", tt.api, tt.base, got, tt.asked)
		}
	}
	vertex := Config{Endpoints: []string{"https://h/v1/projects/p/locations/l/publishers/google"}, API: "gemini",
		Model: "m", APIKey: "k"}
	if h := newTestClient(t, vertex).headers; h.Get("Authorization") != "Bearer k" || h.Get("X-Goog-Api-Key") != "" {
		t.Errorf("a key for Vertex AI is sent as %v", h)
	}
}

func TestDialectHeaders(t *testing.T) {
	for _, apiName := range registry.Names() {
		h := newTestClient(t, Config{Endpoints: []string{"http://h"}, API: apiName, APIKey: "k"}).headers
		want := http.Header{"Authorization": {"Bearer k"}}
		switch apiName {
		case "anthropic":
			want = http.Header{"X-Api-Key": {"k"}, "Anthropic-Version": {"2023-06-01"}}
		case "gemini":
			want = http.Header{"X-Goog-Api-Key": {"k"}}
		}
		for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Anthropic-Version"} {
			if h.Get(name) != want.Get(name) {
				t.Errorf("%s: %s is %q", apiName, name, h.Get(name))
			}
		}
	}
	h := newTestClient(t, Config{Endpoints: []string{"http://h"}, API: "anthropic",
		Headers: map[string]string{"anthropic-version": "2099-01-01"}}).headers
	if h.Get("Anthropic-Version") != "2099-01-01" || h.Get("X-Api-Key") != "" {
		t.Errorf("%v", h)
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
