package simulator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/simulator/api"
	"github.com/spate-load/spate/simulator/config"
)

// fast returns a configuration whose engines take almost no time.
func fast() config.Config {
	c := config.Default()
	c.Model.PrefillTokensPerSecond = math.Inf(1)
	c.Model.DecodeStep = 100 * time.Microsecond
	c.Model.DecodeStepPerRequest = 0
	return c
}

// peer is a started simulator and its client.
type peer struct {
	*Server
	t      *testing.T
	client *http.Client
}

func start(t *testing.T, c config.Config) *peer {
	t.Helper()
	s, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{Server: s, t: t, client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(p.stop)
	return p
}

// stop stops the simulator at once. It may be called before the test ends, to see all records.
func (p *peer) stop() {
	p.client.CloseIdleConnections()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.Close(gone)
}

// ask sends a request to an endpoint. The caller closes the body.
func (p *peer) ask(ctx context.Context, endpoint int, path, id, body string) (*http.Response, error) {
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(ctx, method, p.URLs()[endpoint]+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if id != "" {
		r.Header.Set("X-Request-Id", id)
	}
	return p.client.Do(r)
}

// get sends a request and returns status and body.
func (p *peer) get(path, id, body string) (int, string) {
	p.t.Helper()
	resp, err := p.ask(p.t.Context(), 0, path, id, body)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// metric waits until a line of the endpoint's metrics starts with this text.
func (p *peer) metric(endpoint int, line string) {
	p.t.Helper()
	for p.t.Context().Err() == nil {
		resp, err := p.ask(p.t.Context(), endpoint, "/metrics", "", "")
		if err != nil {
			p.t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if strings.Contains("\n"+string(b), "\n"+line+"\n") {
			return
		}
	}
	p.t.Fatalf("no metric %s", line)
}

var createdField = regexp.MustCompile(`"created":\d+`)

const (
	chatPath        = "/v1/chat/completions"
	completionsPath = "/v1/completions"
)

func TestResponses(t *testing.T) {
	head := `{"id":"chatcmpl-r","object":"chat.completion.chunk","created":0,"model":"m"`
	text := `{"id":"cmpl-r","object":"text_completion","created":0,"model":"m"`
	role := `data: ` + head +
		`,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}` +
		"\n\n"
	delta := func(content, finish, more string) string {
		return `data: ` + head + `,"choices":[{"index":0,"delta":{` + content + `},"logprobs":null,"finish_reason":` +
			finish + `}]` + more + "}\n\n"
	}
	piece := func(content, finish, more string) string {
		return `data: ` + text + `,"choices":[{"index":0,"text":"` + content + `","logprobs":null,"finish_reason":` +
			finish + `}]` + more + "}\n\n"
	}
	usage := func(in, out int) string {
		return fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}`, in, in+out, out)
	}
	thought := func(out, reasoning int) string {
		return fmt.Sprintf(`,"usage":{"prompt_tokens":3,"total_tokens":%d,"completion_tokens":%d,"completion_tokens_details":{"reasoning_tokens":%d}}`, 3+out, out, reasoning)
	}
	const done = "data: [DONE]\n\n"
	const ask = `{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}],"max_tokens":3,"stream":true`
	for name, c := range map[string]struct {
		frames config.Frames
		path   string
		body   string
		want   string
	}{
		"chat": {
			config.Frames{Role: config.RoleWithFirstToken, TokensPerFrame: 1}, chatPath, ask + `}`,
			role + delta(`"content":" water"`, `null`, "") + delta(`"content":" rises"`, `null`, "") +
				delta(`"content":" over"`, `"length"`, "") + done,
		},
		"usage at the end": {
			config.Frames{Role: config.RoleAtOnce, TokensPerFrame: 9}, chatPath,
			ask + `,"stream_options":{"include_usage":true}}`,
			role + delta(`"content":" water"`, `null`, "") + delta(`"content":" rises over"`, `"length"`, "") +
				`data: ` + head + `,"choices":[]` + usage(3, 3) + "}\n\n" + done,
		},
		"usage as asked on the way": {
			config.Frames{Role: config.RoleNone, TokensPerFrame: 2}, chatPath,
			ask + `,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`,
			delta(`"content":" water"`, `null`, usage(3, 1)) + delta(`"content":" rises over"`, `"length"`,
				usage(3, 3)) +
				`data: ` + head + `,"choices":[]` + usage(3, 3) + "}\n\n" + done,
		},
		"usage as asked on the way, with the role": {
			config.Frames{Role: config.RoleWithFirstToken, TokensPerFrame: 3}, chatPath,
			ask + `,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`,
			strings.Replace(role, "}]}", "}]"+usage(3, 0)+"}", 1) + delta(`"content":" water"`, `null`, usage(3, 1)) +
				delta(`"content":" rises over"`, `"length"`, usage(3, 3)) + `data: ` + head + `,"choices":[]` +
				usage(3, 3) + "}\n\n" + done,
		},
		"continuous usage without usage": {
			config.Frames{Role: config.RoleNone, TokensPerFrame: 3}, chatPath,
			ask + `,"stream_options":{"continuous_usage_stats":true}}`,
			delta(`"content":" water"`, `null`, "") + delta(`"content":" rises over"`, `"length"`, "") + done,
		},
		"reasoning first, finish apart": {
			config.Frames{Role: config.RoleNone, TokensPerFrame: 1, ReasoningTokens: 2, FinishFrame: true},
			chatPath, ask + `}`,
			delta(`"reasoning_content":" water"`, `null`, "") + delta(`"reasoning_content":" rises"`, `null`, "") +
				delta(`"content":" over"`, `null`, "") +
				delta("", `"length"`, "") + done,
		},
		"reasoning and content in one frame": {
			config.Frames{Role: config.RoleNone, TokensPerFrame: 2, ReasoningTokens: 2}, chatPath, ask + `}`,
			delta(`"reasoning_content":" water"`, `null`, "") + delta(`"reasoning_content":" rises","content":" over"`,
				`"length"`, "") + done,
		},
		"reasoning in another field": {
			config.Frames{Role: config.RoleNone, TokensPerFrame: 1, ReasoningTokens: 1, ReasoningField: "thoughts"},
			chatPath,
			ask + `,"stream_options":{"include_usage":true}}`,
			delta(`"thoughts":" water"`, `null`, "") + delta(`"content":" rises"`, `null`, "") +
				delta(`"content":" over"`, `"length"`, "") +
				`data: ` + head + `,"choices":[]` + thought(3, 1) + "}\n\n" + done,
		},
		"reasoning hidden": {
			config.Frames{Role: config.RoleNone, TokensPerFrame: 1, ReasoningTokens: 2,
				ReasoningField: config.ReasoningHidden}, chatPath,
			ask + `,"stream_options":{"include_usage":true}}`,
			delta(`"content":" over"`, `"length"`, "") + `data: ` + head + `,"choices":[]` + thought(3, 2) +
				"}\n\n" + done,
		},
		"reasoning hidden and untold": {
			config.Frames{Role: config.RoleNone, TokensPerFrame: 1, ReasoningTokens: 2,
				ReasoningField:   config.ReasoningHidden,
				NoReasoningUsage: true}, chatPath, ask + `,"stream_options":{"include_usage":true}}`,
			delta(`"content":" over"`, `"length"`, "") + `data: ` + head + `,"choices":[]` + usage(3, 3) +
				"}\n\n" + done,
		},
		"all of it hidden": {
			config.Frames{Role: config.RoleWithFirstToken, TokensPerFrame: 1, ReasoningTokens: 7,
				ReasoningField: config.ReasoningHidden},
			chatPath, ask + `}`,
			role + delta(`"content":""`, `"length"`, "") + done,
		},
		"one frame": {
			config.Frames{Role: config.RoleWithFirstToken, TokensPerFrame: 1, Deliver: config.DeliverOneFrame},
			chatPath, ask + `}`,
			role + delta(`"content":" water rises over"`, `"length"`, "") + done,
		},
		"one write": {
			config.Frames{Role: config.RoleWithFirstToken, TokensPerFrame: 1, Deliver: config.DeliverOneWrite},
			chatPath, ask + `}`,
			role + delta(`"content":" water"`, `null`, "") + delta(`"content":" rises"`, `null`, "") +
				delta(`"content":" over"`, `"length"`, "") + done,
		},
		"completions of token ids": {
			config.Frames{Role: config.RoleWithFirstToken, TokensPerFrame: 1}, completionsPath,
			`{"model":"m","prompt":[11, 12,13,14],"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`,
			piece(" water", `null`, "") + piece(" rises", `"length"`, "") + `data: ` + text + `,"choices":[]` +
				usage(4, 2) + "}\n\n" + done,
		},
		"completions, finish apart": {
			config.Frames{Role: config.RoleWithFirstToken, TokensPerFrame: 1, FinishFrame: true}, completionsPath,
			`{"model":"m","prompt":"one","max_tokens":1,"stream":true}`,
			piece(" water", `null`, "") + piece("", `"length"`, "") + done,
		},
		"chat, whole": {
			config.Frames{Role: config.RoleWithFirstToken, TokensPerFrame: 1, ReasoningTokens: 1}, chatPath,
			`{"model":"m","messages":[{"content":[{"type":"text","text":"three little words"},{"type":"image_url"}]},{"content":null}],"max_completion_tokens":2,"max_tokens":9}`,
			`{"id":"chatcmpl-r","object":"chat.completion","created":0,"model":"m","choices":[{"index":0,"message":{"role":"assistant","reasoning_content":" water","content":" rises"},"logprobs":null,"finish_reason":"length"}]` + thought(2, 1) + `}`,
		},
		"completions, whole, default length": {
			config.Frames{Role: config.RoleWithFirstToken, TokensPerFrame: 1}, completionsPath,
			`{"model":"m","prompt":"one\n two"}`,
			text + `,"choices":[{"index":0,"text":" water rises over the banks and spreads across low fields while rain goes on all night","logprobs":null,"finish_reason":"length"}]` + usage(2, 16) + `}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fast()
			cfg.Frames = c.frames
			status, body := start(t, cfg).get(c.path, "r", c.body)
			if status != http.StatusOK {
				t.Errorf("status %d", status)
			}
			body = createdField.ReplaceAllString(body, `"created":0`)
			if diff := cmp.Diff(strings.SplitAfter(c.want, "\n"), strings.SplitAfter(body, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	cfg := fast()
	cfg.ModelName = "m"
	cfg.MaxModelTokens = 10
	p := start(t, cfg)
	for name, c := range map[string]struct {
		path, body string
		status     int
		says       string
	}{
		"not JSON":      {chatPath, `{"model"`, 400, "not a JSON object"},
		"not an object": {chatPath, `[1]`, 400, "not a JSON object"},
		"no model":      {chatPath, `{"messages":[{"content":"a"}]}`, 400, "model is missing"},
		"unknown model": {chatPath, `{"model":"x","messages":[{"content":"a"}]}`, 404, `\"x\" does not exist`},
		"no messages":   {chatPath, `{"model":"m"}`, 400, "messages is missing"},
		"content a number": {chatPath, `{"model":"m","messages":[{"content":1}]}`, 400,
			"messages[0].content is neither"},
		"parts of numbers": {chatPath, `{"model":"m","messages":[{"content":[1]}]}`, 400,
			"messages[0].content is an array"},
		"no prompt":          {completionsPath, `{"model":"m"}`, 400, "prompt is missing"},
		"empty prompt":       {completionsPath, `{"model":"m","prompt":[ ]}`, 400, "prompt is empty"},
		"prompts in a batch": {completionsPath, `{"model":"m","prompt":["a","b"]}`, 400, "batches"},
		"negative token id":  {completionsPath, `{"model":"m","prompt":[-1]}`, 400, "token ids"},
		"no tokens":          {completionsPath, `{"model":"m","prompt":[1],"max_tokens":0}`, 400, "max_tokens is 0"},
		"tokens beyond count": {completionsPath, `{"model":"m","prompt":[1],"max_tokens":9223372036854775807}`, 400,
			"max_tokens is 9223372036854775807"},
		"least above most": {completionsPath, `{"model":"m","prompt":[1],"max_tokens":2,"min_tokens":3}`, 400,
			"min_tokens is 3"},
		"two choices": {completionsPath, `{"model":"m","prompt":[1],"n":2}`, 400, "n is 2"},
		"too long": {completionsPath, `{"model":"m","prompt":[1,2,3],"max_tokens":8}`, 400,
			"maximum context length is 10 tokens"},
		"body too long": {completionsPath, `{"model":"m","prompt":"` + strings.Repeat("a ", maxBody/2) + `"}`, 413,
			"longer than 67108864 bytes"},
		"unknown path": {"/v1/images", `{}`, 404, "/v1/images"},
	} {
		t.Run(name, func(t *testing.T) {
			status, body := p.get(c.path, "", c.body)
			if status != c.status || !strings.Contains(body, c.says) {
				t.Errorf("got %d %s, want %d with %q", status, body, c.status, c.says)
			}
			var object struct {
				Error struct{ Message, Type, Code string }
			}
			if err := json.Unmarshal([]byte(body), &object); err != nil || object.Error.Message == "" ||
				object.Error.Type == "" || object.Error.Code == "" {
				t.Errorf("%s is not an error object: %v", body, err)
			}
		})
	}
}

func TestKey(t *testing.T) {
	cfg := fast()
	cfg.APIKey = "sesame"
	p := start(t, cfg)
	for _, path := range []string{"/v1/models", completionsPath} {
		for key, want := range map[string]int{"Bearer sesame": 200, "Bearer sesam": 401, "sesame": 401, "": 401} {
			method, body := http.MethodGet, ""
			if path == completionsPath {
				method, body = http.MethodPost, `{"model":"m","prompt":"a"}`
			}
			r, _ := http.NewRequestWithContext(t.Context(), method, p.URLs()[0]+path, strings.NewReader(body))
			r.Header.Set("Authorization", key)
			resp, err := p.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != want || strings.Contains(string(b), "sesam") {
				t.Errorf("%s with %q: %d %s, want %d", path, key, resp.StatusCode, b, want)
			}
		}
	}
}

func TestModelsHealthMetrics(t *testing.T) {
	cfg := fast()
	cfg.ModelName = `mo"del`
	cfg.MaxModelTokens = 4096
	p := start(t, cfg)
	if status, body := p.get("/health", "", ""); status != 200 || body != "" {
		t.Errorf("health: %d %q", status, body)
	}
	_, body := p.get("/v1/models", "", "")
	want := `{"object":"list","data":[{"id":"mo\"del","object":"model","created":0,"owned_by":"spate","max_model_len":4096}]}`
	if body = createdField.ReplaceAllString(body, `"created":0`); body != want {
		t.Errorf("models: %s", body)
	}
	p.get(completionsPath, "", `{"model":"mo\"del","prompt":[1,2,3],"max_tokens":4}`)
	for _, line := range []string{
		`vllm:num_requests_running{engine="0",model_name="mo\"del"} 0`,
		`vllm:num_requests_waiting{engine="0",model_name="mo\"del"} 0`,
		`vllm:prompt_tokens_total{engine="0",model_name="mo\"del"} 3`,
		`vllm:generation_tokens_total{engine="0",model_name="mo\"del"} 4`,
		`vllm:request_success_total{finished_reason="length",model_name="mo\"del"} 1`,
	} {
		p.metric(0, line)
	}
}

func TestOutputsThatEndEarly(t *testing.T) {
	cfg := fast()
	cfg.OutputLength = config.OutputLength{Mean: 10, Stddev: 8}
	cfg.Truth.Keep = true
	p := start(t, cfg)
	lengths := map[string]int{}
	for round := range 2 {
		for i := range 30 {
			id := fmt.Sprint("r", (i+round*7)%30)
			p.get(completionsPath, id, `{"model":"m","prompt":"a","max_tokens":20,"min_tokens":5,"stream":true}`)
		}
	}
	p.get(completionsPath, "forced", `{"model":"m","prompt":"a","max_tokens":20,"ignore_eos":true}`)
	p.stop()
	kinds := map[int]bool{}
	for _, r := range p.Records() {
		if r.RequestID == "forced" {
			if r.OutputTokens != 20 || r.FinishReason != api.FinishLength {
				t.Errorf("with ignore_eos: %+v", r)
			}
			continue
		}
		kinds[r.OutputTokens] = true
		if r.OutputTokens < 5 || r.OutputTokens > 20 || (r.OutputTokens < 20) != (r.FinishReason == api.FinishStop) {
			t.Errorf("%d tokens, finish %q", r.OutputTokens, r.FinishReason)
		}
		if before, ok := lengths[r.RequestID]; ok && before != r.OutputTokens {
			t.Errorf("%s had %d tokens, then %d", r.RequestID, before, r.OutputTokens)
		}
		lengths[r.RequestID] = r.OutputTokens
	}
	if len(kinds) < 8 {
		t.Errorf("only %d lengths in 30 requests", len(kinds))
	}
}

func TestProtocols(t *testing.T) {
	cfg, ca, err := config.SelfSigned(time.Now(), "simulator.test", "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	for _, c := range []struct {
		served string
		tls    bool
		spoken string // by the client
		major  int    // 0: they cannot connect
	}{
		{"1.1", false, "1.1", 1}, {"2", false, "2", 2}, {"any", false, "1.1", 1}, {"any", false, "2", 2},
		{"1.1", false, "2", 0}, {"2", false, "1.1", 0},
		{"1.1", true, "1.1", 1}, {"2", true, "2", 2}, {"any", true, "1.1", 1}, {"any", true, "2", 2},
		{"1.1", true, "2", 0}, {"2", true, "1.1", 0},
	} {
		served := fast()
		served.Protocol.HTTP = c.served
		if c.tls {
			served.Protocol.TLS = cfg
		}
		p := start(t, served)
		client := config.Protocol{HTTP: c.spoken, TLS: served.Protocol.TLS}
		p.client.Transport = &http.Transport{Protocols: client.Protocols(),
			TLSClientConfig: &tls.Config{RootCAs: roots}}
		for name, a := range asks {
			resp, err := p.ask(t.Context(), 0, a.path, "r", a.body)
			if (err == nil) != (c.major > 0) {
				t.Errorf("%+v: %v", c, err)
			}
			if err != nil {
				break
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			want := handled(t, fast(), a.path, a.body)
			if err != nil || resp.ProtoMajor != c.major || withoutTimes(string(body)) != want {
				t.Errorf("%+v: %s: HTTP/%d, %v, %q", c, name, resp.ProtoMajor, err, body)
			}
		}
		p.stop()
	}
}
