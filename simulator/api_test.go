package simulator

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/simulator/config"
)

// asks has a streamed request for three tokens for each API.
var asks = map[string]struct{ path, body string }{
	"chat": {chatPath,
		`{"model":"m","messages":[{"role":"user","content":"hi you"}],"max_tokens":3,"stream":true}`},
	"completions": {completionsPath, `{"model":"m","prompt":"hi you","max_tokens":3,"stream":true}`},
	"responses":   {"/v1/responses", `{"model":"m","input":"hi you","max_output_tokens":3,"stream":true}`},
	"anthropic": {"/v1/messages",
		`{"model":"m","system":"hi","messages":[{"role":"user","content":[{"type":"text","text":"you"}]}],"max_tokens":3,"stream":true}`},
	"sglang": {"/generate",
		`{"input_ids":[1,2],"sampling_params":{"max_new_tokens":3,"ignore_eos":true},"stream":true}`},
}

// unstreamed returns the same request of an API without streaming.
func unstreamed(api string) (path, body string) {
	a := asks[api]
	return a.path, strings.Replace(a.body, `,"stream":true`, "", 1)
}

var timeFields = regexp.MustCompile(`"(created|created_at)":\d+`)

func withoutTimes(s string) string { return timeFields.ReplaceAllString(s, `"$1":0`) }

// handled returns an answer without a connection, as net/http alone would write it.
func handled(t *testing.T, c config.Config, path, body string) string {
	t.Helper()
	ep := newEndpoint(c, 0, newTruthLog(c.Truth))
	defer ep.Close()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("X-Request-Id", "r")
	ep.ServeHTTP(w, r)
	return withoutTimes(w.Body.String())
}

func TestStreamsOfEachAPI(t *testing.T) {
	named := func(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }
	event := func(seq int, name, rest string) string {
		return named(name, fmt.Sprintf(`{"type":%q,"sequence_number":%d%s}`, name, seq, rest))
	}
	const response = `,"response":{"id":"resp_r","object":"response","created_at":0,"error":null,"model":"m","status":"in_progress","incomplete_details":null,"output":[],"usage":null}`
	const rs, msg = `,"item_id":"rs_r","output_index":0,"content_index":0`,
		`,"item_id":"msg_r","output_index":1,"content_index":0`
	const rsDone = `{"id":"rs_r","type":"reasoning","summary":[],"status":"completed","content":[{"type":"reasoning_text","text":" water"}]}`
	const msgPart = `{"type":"output_text","annotations":[],"logprobs":[],"text":" rises over"}`
	const msgDone = `{"id":"msg_r","type":"message","role":"assistant","status":"completed","content":[` +
		msgPart + `]}`
	meta := func(n int, finish string) string {
		return fmt.Sprintf(`"meta_info":{"id":"r","finish_reason":%s,"prompt_tokens":2,"completion_tokens":%d,"cached_tokens":0}}`, finish, n)
	}
	usage := func(n int) string {
		return fmt.Sprintf(`"usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":2,"output_tokens":%d}`, n)
	}
	for name, want := range map[string]string{
		"responses": event(0, "response.created", response) + event(1, "response.in_progress", response) +
			event(2, "response.output_item.added",
				`,"output_index":0,"item":{"id":"rs_r","type":"reasoning","summary":[],"status":"in_progress","content":[]}`) +
			event(3, "response.content_part.added", rs+`,"part":{"type":"reasoning_text","text":""}`) +
			event(4, "response.reasoning_text.delta", rs+`,"delta":" water"`) +
			event(5, "response.reasoning_text.done", rs+`,"text":" water"`) +
			event(6, "response.content_part.done", rs+`,"part":{"type":"reasoning_text","text":" water"}`) +
			event(7, "response.output_item.done", `,"output_index":0,"item":`+rsDone) +
			event(8, "response.output_item.added",
				`,"output_index":1,"item":{"id":"msg_r","type":"message","role":"assistant","status":"in_progress","content":[]}`) +
			event(9, "response.content_part.added",
				msg+`,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}`) +
			event(10, "response.output_text.delta", msg+`,"delta":" rises"`) + event(11, "response.output_text.delta",
			msg+`,"delta":" over"`) +
			event(12, "response.output_text.done", msg+`,"text":" rises over"`) +
			event(13, "response.content_part.done", msg+`,"part":`+msgPart) +
			event(14, "response.output_item.done", `,"output_index":1,"item":`+msgDone) +
			event(15, "response.completed",
				`,"response":{"id":"resp_r","object":"response","created_at":0,"error":null,"model":"m","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[`+
					rsDone+`,`+msgDone+`],"usage":{"input_tokens":2,"input_tokens_details":{"cached_tokens":0},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":5}}`),
		"anthropic": named("message_start",
			`{"type":"message_start","message":{"id":"msg_r","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,`+usage(1)+`}}`) +
			named("content_block_start",
				`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`) +
			named("content_block_delta",
				`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":" water"}}`) +
			named("content_block_stop", `{"type":"content_block_stop","index":0}`) +
			named("content_block_start",
				`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`) +
			named("content_block_delta",
				`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" rises"}}`) +
			named("content_block_delta",
				`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" over"}}`) +
			named("content_block_stop", `{"type":"content_block_stop","index":1}`) +
			named("message_delta", `{"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},`+
				usage(3)+`}`) +
			named("message_stop", `{"type":"message_stop"}`),
		"sglang": `data: {"text":" water","output_ids":[1000],` + meta(1, `null`) + "\n\n" +
			`data: {"text":" water rises","output_ids":[1000,1001],` + meta(2, `null`) + "\n\n" +
			`data: {"text":" water rises over","output_ids":[1000,1001,1002],` +
			meta(3, `{"type":"length","length":3}`) + "\n\n" + "data: [DONE]\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fast()
			cfg.Frames.ReasoningTokens = 1
			_, body := start(t, cfg).get(asks[name].path, "r", asks[name].body)
			if diff := cmp.Diff(strings.SplitAfter(want, "\n"), strings.SplitAfter(withoutTimes(body), "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWholeAnswersOfEachAPI(t *testing.T) {
	for name, want := range map[string]string{
		"responses": `{"id":"resp_r","object":"response","created_at":0,"error":null,"model":"m","status":"completed","incomplete_details":null,"output":[{"id":"msg_r","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":" water"}]}],"usage":{"input_tokens":2,"input_tokens_details":{"cached_tokens":0},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":4}}`,
		"anthropic": `{"id":"msg_r","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":" water"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":2,"output_tokens":2}}`,
		"sglang":    `{"text":" water rises over","output_ids":[1000,1001,1002],"meta_info":{"id":"r","finish_reason":{"type":"length","length":3},"prompt_tokens":2,"completion_tokens":3,"cached_tokens":0}}`,
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fast()
			cfg.OutputLength.Mean = 2 // SGLang's request forbids it
			path, body := unstreamed(name)
			if _, got := start(t, cfg).get(path, "r", body); withoutTimes(got) != want {
				t.Error(cmp.Diff(want, withoutTimes(got)))
			}
		})
	}
}

// TestListsOfPoolingAPIs: clients refuse a list with objects of another type, and LiteLLM asks vLLM's other path.
func TestListsOfPoolingAPIs(t *testing.T) {
	for path, c := range map[string]struct{ body, want string }{
		"/v1/embeddings": {`{"model":"m","input":["a","b"]}`, `{"object":"embedding","embedding":[`},
		"/score":         {`{"model":"m","text_1":"a","text_2":["b"]}`, `{"object":"score","score":0.5,"index":0}`},
		"/rerank":        {`{"model":"m","query":"a","documents":["b"]}`, `{"relevance_score":0.5,"index":0}`},
	} {
		if got := handled(t, config.Default(), path, c.body); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// All ways of sending produce the same bytes.
func TestAllWaysOfSendingAgree(t *testing.T) {
	shapes := map[string]func(*config.Config){
		"as it is":             func(*config.Config) {},
		"opening at once":      func(c *config.Config) { c.Frames.Role = config.RoleAtOnce },
		"one write at the end": func(c *config.Config) { c.Frames.Deliver = config.DeliverOneWrite },
		"in ticks":             func(c *config.Config) { c.Pace = config.Pace{BetweenTokens: time.Millisecond, Ticks: true} },
		"spread":               func(c *config.Config) { c.Pace = config.Pace{BetweenTokens: time.Millisecond} },
		"stall": func(c *config.Config) {
			c.Faults = []config.Fault{{Kind: config.FaultStall, Probability: 1, AfterTokens: 1,
				Pause: time.Millisecond}}
		},
	}
	for shape, change := range shapes {
		t.Run(shape, func(t *testing.T) {
			cfg := fast()
			change(&cfg)
			p := start(t, cfg)
			for name, a := range asks {
				status, got := p.get(a.path, "r", a.body)
				// Anthropic's, with its block at once
				got = strings.Replace(got, "event: ping\ndata: {\"type\":\"ping\"}\n\n", "", 1)
				if diff := cmp.Diff(handled(t, fast(), a.path, a.body), withoutTimes(got)); status != 200 || diff != "" {
					t.Errorf("%s: %d %s", name, status, diff)
				}
			}
		})
	}
}

func TestSeveralTokensAFrame(t *testing.T) {
	several := fast()
	several.Frames.TokensPerFrame = 5
	for name, a := range asks {
		frames := strings.Count(handled(t, fast(), a.path, a.body), "\n\n")
		if got := handled(t, several, a.path, a.body); !strings.Contains(got, ` rises over"`) ||
			strings.Count(got, "\n\n") >= frames {
			t.Errorf("%s: two tokens of three in a frame: %q", name, got)
		}
	}
}

func TestStampsOfEachAPI(t *testing.T) {
	cfg := fast()
	cfg.Truth.Stamp = true
	for name, a := range asks {
		got := handled(t, cfg, a.path, a.body)
		for frame := range strings.SplitSeq(strings.TrimSpace(got), "\n\n") {
			if !strings.Contains(frame, `,"sent_ns":`) && !strings.HasSuffix(frame, "[DONE]") {
				t.Errorf("%s: no stamp in %s", name, frame)
			}
		}
	}
}

// Each API reports faults in its own form.
func TestFaultsOfEachAPI(t *testing.T) {
	words := map[string]struct{ inStream, busy, failed string }{
		"chat": {`data: {"error":{"message":"The server`, `"code":"rate_limit_exceeded"`,
			`"type":"server_error"`},
		"completions": {`data: {"error":{"message":"The server`, `"code":"rate_limit_exceeded"`,
			`"type":"server_error"`},
		"responses": {"event: error\ndata: {\"type\":\"error\",\"sequence_number\":5,\"code\":\"internal_error\",\"message\":\"The server", `"code":"rate_limit_exceeded"`, `"type":"server_error"`},
		"anthropic": {"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"The server", `"type":"rate_limit_error"`, `"type":"api_error"`},
		"sglang": {`data: {"error":{"message":"The server`, `{"error":{"message":"Rate`,
			`{"error":{"message":"The server`},
	}
	for name, a := range asks {
		for _, c := range []struct {
			kind   config.FaultKind
			status int
			says   string
			ends   error
		}{
			{config.FaultErrorFrame, 200, words[name].inStream, nil},
			{config.FaultTooManyRequests, 429, words[name].busy, nil},
			{config.FaultServerError, 500, words[name].failed, nil},
			{config.FaultCut, 200, " water", io.ErrUnexpectedEOF},
			{config.FaultReset, 200, "", syscall.ECONNRESET},
			{config.FaultGarbage, 200, "<html>", nil},
			{config.FaultGarbageFrame, 200, "", nil},
		} {
			t.Run(name+"/"+string(c.kind), func(t *testing.T) {
				cfg := fast()
				cfg.Truth.Keep = true
				cfg.Faults = []config.Fault{{Kind: c.kind, Probability: 1, AfterTokens: 1}}
				p := start(t, cfg)
				resp, err := p.ask(t.Context(), 0, a.path, "r", a.body)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				got := string(body)
				if !errors.Is(err, c.ends) || resp.StatusCode != c.status || !strings.Contains(got, c.says) {
					t.Errorf("%d %q, then %v; want %d, %q, then %v", resp.StatusCode, got, err, c.status,
						c.says, c.ends)
				}
				if strings.Contains(got, " over") {
					t.Errorf("it went on to its end: %q", body)
				}
				p.stop()
				if r := p.Records()[0]; r.Fault != c.kind || r.Status != c.status || r.FinishReason != "" {
					t.Errorf("recorded %+v", r)
				}
			})
		}
	}
}

func TestRefusalsOfEachAPI(t *testing.T) {
	cfg := fast()
	cfg.ModelName, cfg.MaxModelTokens, cfg.APIKey = "m", 10, "sesame"
	p := start(t, cfg)
	for _, c := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"/v1/responses", `{"model":"m"}`, 400, `{"error":{"message":"input is missing`},
		{"/v1/responses", `{"model":"m","input":[]}`, 400, `messages is missing`},
		{"/v1/responses", `{"model":"m","input":"a","instructions":3}`, 400, `instructions is neither`},
		{"/v1/responses", `{"model":"m","input":"a","max_output_tokens":20}`, 400, `context_length_exceeded`},
		{"/v1/messages", `{"model":"m","messages":[{"content":"a"}]}`, 400,
			`{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens is missing`},
		{"/v1/messages", `{"model":"x","messages":[{"content":"a"}],"max_tokens":1}`, 404, `"type":"not_found_error"`},
		{"/generate", `{"sampling_params":{}}`, 400, `{"error":{"message":"the prompt is missing`},
		{"/generate", `{"text":"a","sampling_params":{"n":2}}`, 400, `only 1`},
	} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URLs()[0]+c.path, strings.NewReader(c.body))
		r.Header.Set("X-Api-Key", "sesame")
		resp, err := p.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != c.status || !strings.Contains(string(b), c.says) {
			t.Errorf("%s %s: %d %s, want %d with %s", c.path, c.body, resp.StatusCode, b, c.status, c.says)
		}
	}
	if status, body := p.get("/v1/messages", "", asks["anthropic"].body); status != 401 ||
		!strings.Contains(body, "authentication_error") {
		t.Errorf("without a key: %d %s", status, body)
	}
}

func TestJSONBody(t *testing.T) {
	cfg := fast()
	cfg.Faults = []config.Fault{{Kind: config.FaultJSONBody, Probability: 1}}
	p := start(t, cfg)
	for name, a := range asks {
		resp, err := p.ask(t.Context(), 0, a.path, "r", a.body)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		path, body := unstreamed(name)
		if diff := cmp.Diff(handled(t, fast(), path, body), withoutTimes(string(got))); diff != "" ||
			resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
