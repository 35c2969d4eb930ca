package stream

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/spate-load/spate/simulator"
	"github.com/spate-load/spate/simulator/config"
)

// The answers of engines and gateways, shortened: vLLM 0.32 with running usage, LiteLLM 1.106 before it, Dynamo 1.6's
// error, and others.
var trials = map[string]struct {
	api, header, answer string
	want                TrialResult
	fails               string
}{
	"vLLM": {"chat", "", `data: {"choices":[{"delta":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":12,"completion_tokens":0}}

data: {"choices":[{"delta":{"content":" fileno"}}],"usage":{"prompt_tokens":12,"completion_tokens":1}}

data: {"choices":[{"delta":{"content":" base"},"finish_reason":"length"}],"usage":{"prompt_tokens":12,"completion_tokens":2}}

data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":2},"system_fingerprint":"vllm-0.32.0-392f7c81"}

data: [DONE]
`, TrialResult{Output: 2, Running: true, Software: []string{"vLLM 0.32.0"}}, ""},
	"LiteLLM": {"chat", "1.106.2", `data: {"choices":[{"delta":{"content":"ild"}}]}

data: {"choices":[{"delta":{},"finish_reason":"length"}],"system_fingerprint":"vllm-0.32.0-392f7c81"}

data: {"choices":[{"delta":{}}],"usage":{"completion_tokens":4,"prompt_tokens":23},"system_fingerprint":"vllm-0.32.0-392f7c81"}

data: [DONE]
`, TrialResult{Output: 4, Software: []string{"LiteLLM 1.106.2", "vLLM 0.32.0"}}, ""},
	"responses": {"responses", "",
		"event: response.completed\ndata: {\"response\":{\"usage\":{\"output_tokens\":3},\"error\":null},\"error\":null}\n", TrialResult{Output: 3}, ""},
	"anthropic": {"anthropic", "",
		"event: message_delta\r\ndata: {\"usage\":{\"input_tokens\":11,\"output_tokens\":3}}\r\n",
		TrialResult{Output: 3}, ""},
	"in one piece": {"completions", "", `{"choices":[{"text":"a"}],"usage":{"completion_tokens":16}}`,
		TrialResult{Output: 16}, ""},
	"an error": {"chat", "", `data: {"error":{"message":"CUDA out of memory"}}`, TrialResult{},
		"the answer is an error: {\"message\":\"CUDA"},
	"a web page": {"chat", "", "\n<!DOCTYPE html><title>Welcome</title>", TrialResult{},
		"it is a web page (HTML), so the URL is not that of an API"},
	"nothing": {"chat", "", "", TrialResult{}, "neither a stream of events nor JSON"},
}

func TestTry(t *testing.T) {
	for name, tt := range trials {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["X-Litellm-Version"] = []string{tt.header}
			_, _ = io.WriteString(w, tt.answer)
		}))
		c := newTestClient(t, Config{Endpoints: []string{server.URL}, API: tt.api, Model: "m"})
		got, err := c.Try(t.Context(), 0, TrialRequest{Text: "hi", Tokens: 4})
		failed := tt.fails != "" && err != nil && strings.Contains(err.Error(), tt.fails)
		if got.Output != tt.want.Output || got.Running != tt.want.Running ||
			!slices.Equal(got.Software, tt.want.Software) || (err != nil) != failed {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		server.Close()
	}
}

func TestTrialBodies(t *testing.T) {
	body := map[string]any{"temperature": 0.0, "max_completion_tokens": 9.0, "ignore_eos": true, "n": 1.0,
		"stream_options": map[string]any{"x": 1.0}}
	for name, tt := range map[string]struct {
		api     string
		request TrialRequest
		want    string
	}{
		"plain": {"chat", TrialRequest{},
			`{"max_tokens":4,"messages":[{"content":"hi","role":"user"}],"model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0}`},
		"exact, running": {"chat", TrialRequest{Exact: true, Running: true},
			`{"ignore_eos":true,"max_tokens":4,"messages":[{"content":"hi","role":"user"}],"min_tokens":4,"model":"m","stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true},"temperature":0}`},
		"bad ignore_eos": {"completions", TrialRequest{BadField: "ignore_eos"},
			`{"ignore_eos":"spate","max_tokens":4,"model":"m","prompt":"hi","stream":true,"stream_options":{"include_usage":true},"temperature":0}`},
		"bad min_tokens": {"chat", TrialRequest{BadField: "min_tokens"},
			`{"max_tokens":4,"messages":[{"content":"hi","role":"user"}],"min_tokens":"spate","model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0}`},
		"responses": {"responses", TrialRequest{Exact: true, Running: true},
			`{"ignore_eos":true,"input":[{"content":"hi","role":"user"}],"max_completion_tokens":9,"max_output_tokens":4,"model":"m","store":false,"stream":true,"temperature":0}`},
	} {
		c := newTestClient(t, Config{Endpoints: []string{"http://h"}, API: tt.api, Model: "m", Body: body})
		tt.request.Text, tt.request.Tokens = "hi", 4
		got, err := c.trialBody(tt.request)
		if err != nil || !sameJSON(t, string(got), tt.want) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if body["ignore_eos"] != true || body["n"] != 1.0 {
		t.Error("the plan's body was changed")
	}
}

// TestTryTheSimulator: the simulator accepts what Try asks for, and refuses a value of a wrong type.
func TestTryTheSimulator(t *testing.T) {
	server, err := simulator.Start(config.Default(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close(t.Context())
	endpoints := server.URLs()
	for _, api := range []string{"chat", "completions", "responses", "anthropic"} {
		c := newTestClient(t, Config{Endpoints: endpoints, API: api, Model: "m"})
		a := TrialRequest{Text: "hi", Tokens: 16, Exact: true, Running: true}
		got, err := c.Try(t.Context(), 0, a)
		if running := api == "chat" || api == "completions"; err != nil || got.Output != 16 || got.Running != running {
			t.Errorf("%s: %+v, %v", api, got, err)
		}
		a.BadField = "ignore_eos"
		if _, err := c.Try(t.Context(), 0, a); !Refused(err) || Unreachable(err) || statusOf(err) != 400 {
			t.Errorf("%s: a wrong type was taken: %v", api, err)
		}
	}
	if err := server.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := newTestClient(t, Config{Endpoints: endpoints})
	if _, err := c.Try(t.Context(), 0, TrialRequest{Text: "hi", Tokens: 1}); Refused(err) || !Unreachable(err) {
		t.Errorf("no listener: %v", err)
	}
}
