package simulator

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

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
		"chat-ids": {chatPath, `"messages":[{"content":"one two three"}],"max_tokens":6,"return_token_ids":true`, 6, "......"},
	} {
		t.Run(name, func(t *testing.T) {
			capture, err := os.ReadFile("testdata/vllm/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			cfg := fast()
			cfg.ChatTemplateTokens = 10
			cfg.OutputLength.Mean = float64(c.tokens)
			if strings.Contains(c.textless, "-") {
				cfg.TextlessShare = 0.5
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
	"system_fingerprint", "prompt_token_ids", "token_ids", "logprobs", "annotations", "signature", "parallel_tool_calls",
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
		if key == "created" || key == "created_at" {
			return 0
		}
	}
	return v
}
