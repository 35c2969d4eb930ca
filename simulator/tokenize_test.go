package simulator

import (
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
	"time"
)

func TestTokenize(t *testing.T) {
	cfg := fast()
	cfg.ModelName, cfg.MaxModelTokens, cfg.ChatTemplateTokens = "served", 4096, 2
	p := start(t, cfg)
	id := func(word string) string {
		h := fnv.New32a()
		_, _ = h.Write([]byte(word)) // a hash never fails
		return fmt.Sprint(h.Sum32() >> 1)
	}
	for body, want := range map[string]string{
		`{"model":"served","prompt":"a b a"}`: `{"count":3,"max_model_len":4096,"tokens":[` + id("a") + `,` +
			id("b") + `,` + id("a") + `],"token_strs":null}`,
		`{"prompt":""}`: `{"count":0,"max_model_len":4096,"tokens":[],"token_strs":null}`,
		`{"messages":[{"role":"user","content":"b"}]}`: `{"count":3,"max_model_len":4096,"tokens":[` + id("b") +
			`,0,1],"token_strs":null}`,
		`{"prompt":null,"messages":[{"content":null}]}`: `{"count":2,"max_model_len":4096,"tokens":[0,1],"token_strs":null}`,
		`{"model":"other","prompt":"a"}`:                `does not exist`,
		`{"prompt":[1]}`:                                `prompt is not a string`,
		`{"prompt":"a","messages":[{"content":"b"}]}`:   `give one of them`,
		`{}`:                           `messages is missing or empty`,
		`{"messages":[{"content":7}]}`: `messages[0].content is neither`,
		`[`:                            `not a JSON object`,
	} {
		if _, got := p.get("/tokenize", "", body); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

// tokenize counts the same as a request's usage.
func TestTokenizeAgreesWithUsage(t *testing.T) {
	cfg := fast()
	cfg.ChatTemplateTokens = 7
	p := start(t, cfg)
	messages := `"messages":[{"content":"a b"},{"content":"c"}]`
	if _, got := p.get("/tokenize", "", `{`+messages+`}`); !strings.HasPrefix(got,
		`{"count":10,"max_model_len":null,`) {
		t.Error(got)
	}
	if _, got := p.get(chatPath, "", `{"model":"m",`+messages+`}`); !strings.Contains(got, `"prompt_tokens":10,`) {
		t.Error(got)
	}
}

// Tokens from the prefix cache show in the usage, in the metrics and in the records.
func TestCachedTokens(t *testing.T) {
	cfg := fast()
	cfg.Model.CacheBlocks, cfg.Model.CacheBlockTokens = 10, 4
	cfg.Truth.Keep = true
	p := start(t, cfg)
	const stream = `,"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}`
	for i, c := range []struct{ path, body, want string }{
		{completionsPath, `"prompt":[1,2,3,4,5,6,7,8]`, `"prompt_tokens_details":{"cached_tokens":0}`},
		{completionsPath, `"prompt":[1,2,3,4,5,6,7,8,9]`, `"prompt_tokens_details":{"cached_tokens":8}`},
		{completionsPath, `"prompt":[1,2,3,4,5,6,7,8]` + stream,
			`"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}`},
		{chatPath, `"messages":[{"content":"a b c d"},{"content":"e"}]` + stream, `"cached_tokens":0`},
		{chatPath, `"messages":[{"content":"a b c d e f g"}]` + stream, `"cached_tokens":4`},
	} {
		if _, got := p.get(c.path, fmt.Sprint("r", i), `{"model":"m",`+c.body+`}`); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.body, got, c.want)
		}
	}
	p.metric(0, `vllm:prefix_cache_queries_total{engine="0",model_name="simulated"} 37`)
	p.metric(0, `vllm:prefix_cache_hits_total{engine="0",model_name="simulated"} 16`)
	p.stop()
	for i, r := range p.Records() {
		if want := []int{0, 8, 4, 0, 4}[i]; r.RequestID != fmt.Sprint("r", i) || r.CachedTokens != want {
			t.Errorf("%s had %d tokens cached, want %d of the request %d", r.RequestID, r.CachedTokens, want, i)
		}
	}
}

// A disaggregated endpoint answers like any other.
func TestDisaggregatedEndpoint(t *testing.T) {
	cfg := fast()
	cfg.Replicas, cfg.PrefillEngines = 2, 3
	cfg.Model.TransferPerThousandTokens = 500 * time.Millisecond
	cfg.Model.Overhead = 5 * time.Millisecond
	cfg.Truth.Keep = true
	p := start(t, cfg)
	for range 4 {
		if status, got := p.get(completionsPath, "", fourTokens); status != 200 ||
			!strings.HasSuffix(got, "[DONE]\n\n") {
			t.Errorf("%d %s", status, got)
		}
	}
	p.stop()
	for _, r := range p.Records() {
		least := 5*time.Millisecond + time.Duration(r.PromptTokens)*500*time.Microsecond
		if d := r.FirstToken.Sub(r.Received); r.PromptTokens == 0 || d < least || r.OutputTokens != 4 {
			t.Errorf("%d tokens in, %d out, first after %v, want at least %v", r.PromptTokens, r.OutputTokens, d, least)
		}
	}
}
