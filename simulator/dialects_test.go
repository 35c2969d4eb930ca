package simulator

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/simulator/api"
	"github.com/spate-load/spate/simulator/config"
)

// testdata/vllm has streams of vLLM 0.32 with a tiny random model. Their texts, ids and times are masked. One is an
// output that ends by itself (logit_bias raised the end-of-sequence token), one has tokens without text (logit_bias
// raised <|im_start|>, which is not shown). For the same outputs the simulator sends the same frames with the same
// fields, except for the listed ones.
func TestStreamsMatchVLLM(t *testing.T) {
	for name, c := range map[string]struct {
		path, body string
		tokens     int    // generated, including the end-of-sequence token
		textless   string // a dot for each token with text
	}{
		"chat-end":        {chatPath, `"messages":[{"content":"one two three"}],"max_tokens":60`, 3, "..e"},
		"completions-end": {completionsPath, `"prompt":"one two three","max_tokens":60`, 8, ".......e"},
		"responses-end":   {"/v1/responses", `"input":"one two three","max_output_tokens":60`, 3, "..e"},
		"anthropic-end": {"/v1/messages", `"messages":[{"content":"one two three"}],"max_tokens":8`,
			7, "......e"},
		"chat-textless": {chatPath, `"messages":[{"content":"one two three"}],"max_tokens":8,"ignore_eos":true`,
			8, "-.---..-"},
		"completions-textless": {completionsPath, `"prompt":"one two three","max_tokens":8,"ignore_eos":true`, 8,
			"-.---..-"},
		"responses-textless": {"/v1/responses", `"input":"one two three","max_output_tokens":8,"ignore_eos":true`, 8,
			"-.---..-"},
		"chat-ids": {chatPath,
			`"messages":[{"content":"one two three"}],"max_tokens":6,"return_token_ids":true`, 6, "......"},
	} {
		t.Run(name, func(t *testing.T) {
			capture, err := os.ReadFile("testdata/vllm/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			cfg := fast()
			cfg.ChatTemplateTokens = 10
			cfg.Dialect.TokenIDs = config.Honoured
			cfg.OutputLength.Mean = float64(c.tokens)
			if strings.Contains(c.textless, "-") {
				cfg.Textless = config.Textless{Share: 0.5, First: 1, Last: 1}
			}
			options := `"stream_options":{"include_usage":true}`
			if name == "chat-ids" {
				options = `"stream_options":{"include_usage":true,"continuous_usage_stats":true}`
			}
			body := `{"model":"m","stream":true,` + options + `,` + c.body + `}`
			_, got := start(t, cfg).get(c.path, nameOf(t, cfg, c.body, c.textless), body)
			if diff := cmp.Diff(maskedEvents(t, string(capture)), maskedEvents(t, got)); diff != "" {
				t.Errorf("-vLLM +simulator: %s", diff)
			}
		})
	}
}

// nameOf returns a request ID with which the tokens have texts by a pattern.
func nameOf(t *testing.T, c config.Config, body, pattern string) string {
	t.Helper()
	q := api.Request{IgnoreEOS: strings.Contains(body, "ignore_eos")}
	_, limit, _ := strings.Cut(body, `okens":`)
	if _, err := fmt.Sscanf(limit, "%d", &q.MaxTokens); err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		name := fmt.Sprint("r", i)
		s := api.DrawScript(&c, &q, api.RequestRand(c.Seed, name))
		drawn := make([]byte, s.Tokens)
		for k := range drawn {
			switch {
			case s.EOS && k == s.Tokens-1:
				drawn[k] = 'e'
			case s.Textless(k):
				drawn[k] = '-'
			default:
				drawn[k] = '.'
			}
		}
		if string(drawn) == pattern {
			return name
		}
	}
	t.Fatalf("no request in 10,000 has the pattern %s", pattern)
	return ""
}

// notSimulated are fields that only vLLM or only the simulator has, and that no client measures by. A null field counts
// as left out.
var notSimulated = []string{
	"system_fingerprint", "prompt_token_ids", "logprobs", "annotations", "signature", "parallel_tool_calls",
	"temperature", "tool_choice",
	"tools", "top_p", "background", "max_output_tokens", "service_tier", "truncation", "presence_penalty",
	"frequency_penalty",
	"input_tokens_details", "output_tokens_details", "cache_creation_input_tokens", "cache_read_input_tokens",
}

// maskedEvents returns the events of a stream: each as its name and its object, with everything masked that differs
// between answers.
func maskedEvents(t *testing.T, stream string) []string {
	var events []string
	for event := range strings.SplitSeq(strings.TrimSpace(stream), "\n\n") {
		name, data, _ := strings.Cut(event, "data: ")
		var v any
		if json.Unmarshal([]byte(data), &v) != nil {
			events = append(events, name+data)
			continue
		}
		masked, err := json.Marshal(mask("", v))
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, name+string(masked))
	}
	return events
}

func mask(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, value := range v {
			if value == nil || slices.Contains(notSimulated, k) {
				delete(v, k)
			} else {
				v[k] = mask(k, value)
			}
		}
		if key == "message" { // its usage differs: Anthropic counts one token before there is any
			delete(v, "usage")
		}
	case []any:
		for i := range v {
			v[i] = mask(key, v[i])
		}
	case string:
		switch key {
		case "id", "item_id":
			return "id"
		case "text", "content", "delta":
			return strings.Map(func(rune) rune { return 'x' }, v[:min(len(v), 1)])
		}
	case float64:
		if key == "created" || key == "created_at" || key == "token_ids" {
			return 0
		}
	}
	return v
}

// The expected fields are what Dynamo 1.6.1 sent for extra_fields of worker_id and timing: its mocker behind its
// frontend, for a stream of four tokens.
func TestNVExt(t *testing.T) {
	c := exactSteps()
	c.Dialect.NVExt = true
	c.Model.PrefillTokensPerSecond = 1000
	c.Model.CacheBlocks, c.Model.CacheBlockTokens = 10, 1
	c.Model.Overhead = 2 * time.Millisecond
	const chat = `{"model":"m","messages":[{"content":"one two three four"}],"max_tokens":3`
	for name, shape := range map[string]struct {
		apart        bool
		body         string
		first, final []string // fields of nvext
	}{
		"not asked": {false, chat + `,"stream":true}`, nil, nil},
		"both": {true, chat + `,"stream":true,"nvext":{"extra_fields":["worker_id","timing"]}}`,
			[]string{"worker_id"}, []string{"timing", "worker_id"}},
		"timing": {true, chat + `,"stream":true,"nvext":{"extra_fields":["timing"]}}`, nil,
			[]string{"timing"}},
		"timing, with the last": {false, chat + `,"stream":true,"nvext":{"extra_fields":["timing"]}}`, nil,
			[]string{"timing"}},
		"timing, without stream": {false, chat + `,"nvext":{"extra_fields":["timing","routed_experts"]}}`,
			[]string{"timing"}, []string{"timing"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Frames.FinishFrame = shape.apart
			p := start(t, c)
			_, got := p.get(chatPath, "r", shape.body)
			p.stop()
			frames := strings.Split(strings.TrimSpace(strings.TrimSuffix(got, "data: [DONE]\n\n")), "\n\n")
			first, _ := extension(t, frames[0])
			final, timing := extension(t, frames[len(frames)-1])
			if diff := cmp.Diff([][]string{shape.first, shape.final}, [][]string{first, final}); diff != "" {
				t.Errorf("%s in %s", diff, got)
			}
			if len(shape.final) == 0 {
				return
			}
			r := p.Records()[0]
			want := map[string]float64{
				"prefill_wait_time_ms": 2, "prefill_time_ms": 4, "ttft_ms": 6, "total_time_ms": 8, "kv_hit_rate": 0,
			}
			sent := timing["request_received_ms"] / 1000
			if now := float64(time.Now().Unix()); sent < now-60 || sent > now+1 {
				t.Errorf("received at %v, now it is %v", sent, now)
			}
			delete(timing, "request_received_ms")
			if diff := cmp.Diff(want, timing); diff != "" {
				t.Errorf("%s; recorded %+v", diff, r)
			}
		})
	}
}

// extension returns the fields of a frame's nvext, and its times.
func extension(t *testing.T, frame string) ([]string, map[string]float64) {
	t.Helper()
	var v struct {
		NVExt map[string]map[string]float64 `json:"nvext"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(frame, "data: ")), &v); err != nil {
		t.Fatal(err, frame)
	}
	var fields []string
	for name := range v.NVExt {
		fields = append(fields, name)
	}
	slices.Sort(fields)
	return fields, v.NVExt["timing"]
}
