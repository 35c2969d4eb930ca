package simulator

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/simulator/config"
)

// A stream has a block for the reasoning, which ends with a signature, and one for the text, and the usage comes after
// the end of the message. A token without text has an empty delta, and the end of the sequence has none.
func TestBedrockStream(t *testing.T) {
	event := func(name, data string) string { return "event: " + name + "\ndata: {" + data + "}\n\n" }
	want := event("messageStart", `"role":"assistant","p":"abcdefgh"`) +
		event("contentBlockDelta",
			`"contentBlockIndex":0,"delta":{"reasoningContent":{"text":" water"}},"p":"abcdefghijklmno"`) +
		event("contentBlockDelta",
			`"contentBlockIndex":0,"delta":{"reasoningContent":{"text":""}},"p":"abcdefghijklmnopqrstuv"`) +
		event("contentBlockDelta", `"contentBlockIndex":0,"delta":{"reasoningContent":`+
			`{"signature":"EqQBCkYIBxgCKkBzaW11bGF0ZWQ="}},"p":"abcdefghijklmnopqrstuvwxyzABC"`) +
		event("contentBlockStop", `"contentBlockIndex":0,"p":"abcdefghijklmnopqrstuvwxyzABCDEFGHIJ"`) +
		event("contentBlockDelta",
			`"contentBlockIndex":1,"delta":{"text":" over"},"p":"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ"`) +
		event("contentBlockStop",
			`"contentBlockIndex":1,"p":"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"`) +
		event("messageStop", `"stopReason":"end_turn","p":"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ01234"`) +
		event("metadata", `"metrics":{"latencyMs":0},"usage":{"cacheReadInputTokens":0,"cacheWriteInputTokens":0,`+
			`"inputTokens":2,"outputTokens":4,"serverToolUsage":{},"totalTokens":6},"p":"ab"`)
	cfg := fast()
	cfg.OutputLength.Mean, cfg.Frames.ReasoningTokens = 4, 2
	cfg.TextlessShare = 0.5
	body := strings.Replace(asks["bedrock"].body, "3", "9", 1)
	_, got := start(t, cfg).get(asks["bedrock"].path, nameOf(t, cfg, body, ".-.e"), body)
	if diff := cmp.Diff(strings.SplitAfter(want, "\n\n"), strings.SplitAfter(withoutTimes(got), "\n\n")); diff != "" {
		t.Error(diff)
	}
}

func TestBedrockBody(t *testing.T) {
	cfg := fast()
	cfg.Frames.ReasoningTokens = 1
	path, body := unstreamed("bedrock")
	want := `{"metrics":{"latencyMs":0},"output":{"message":{"content":[{"reasoningContent":{"reasoningText":` +
		`{"signature":"EqQBCkYIBxgCKkBzaW11bGF0ZWQ=","text":" water"}}},{"text":" rises over"}],"role":"assistant"}},` +
		`"stopReason":"max_tokens","usage":{"cacheReadInputTokens":0,"cacheWriteInputTokens":0,"inputTokens":2,` +
		`"outputTokens":3,"serverToolUsage":{},"totalTokens":5}}`
	if got := handled(t, cfg, path, body); got != want {
		t.Error(cmp.Diff(want, got))
	}
}

// The send time in each message of a token is that of the record, whether messages are sent one by one or together.
func TestBedrockStampsAreTrue(t *testing.T) {
	for _, deliver := range []config.Delivery{config.DeliverAsProduced, config.DeliverOneWrite} {
		cfg := fast()
		cfg.Truth = config.Truth{Stamp: true, Keep: true, Tokens: true}
		cfg.Frames.Deliver = deliver
		p := start(t, cfg)
		resp, err := p.ask(t.Context(), 0, asks["bedrock"].path, "r", asks["bedrock"].body)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got := resp.Header.Get("Content-Type"); got != "application/vnd.amazon.eventstream" {
			t.Errorf("content type %q", got)
		}
		var sent []clock.Instant
		for {
			m, err := eventstream.NewDecoder().Decode(resp.Body, nil)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			var payload struct {
				Sent clock.Instant `json:"sent_ns"`
			}
			if err := json.Unmarshal(m.Payload, &payload); err != nil || payload.Sent == 0 {
				t.Fatalf("%s: %v", m.Payload, err)
			}
			if m.Headers.Get(":event-type").String() == "contentBlockDelta" {
				sent = append(sent, payload.Sent)
			}
		}
		p.stop()
		last := p.Records()[0].Tokens
		if len(sent) != 3 || sent[2] != last[2] || deliver == config.DeliverAsProduced && !cmp.Equal(sent, last) ||
			sent[0] > last[0] {
			t.Errorf("%s: sent at %d, recorded %d", deliver, sent, last)
		}
	}
}

// Errors are named in a header, as the SDKs read them.
func TestBedrockErrors(t *testing.T) {
	cfg := fast()
	cfg.ModelName, cfg.APIKey, cfg.MaxModelTokens = "m", "sesame", 10
	p := start(t, cfg)
	for name, c := range map[string]struct {
		path, key, body string
		status          int
		exception, says string
	}{
		"no key":    {"/model/m/converse", "", `{}`, 403, "UnrecognizedClientException:", "API key"},
		"wrong key": {"/model/m/converse", "Bearer x", `{}`, 403, "UnrecognizedClientException:", "API key"},
		"signed": {"/model/m/converse", "AWS4-HMAC-SHA256 x", `{}`, 403, "UnrecognizedClientException:",
			"API key"},
		"no messages": {"/model/m/converse", "Bearer sesame", `{}`, 400, "ValidationException:",
			"messages is missing"},
		"a string": {"/model/m/converse", "Bearer sesame", `{"messages":[{"content":"a"}]}`, 400,
			"ValidationException:", "content blocks"},
		"unknown model": {"/model/x/converse", "Bearer sesame", `{}`, 400, "ValidationException:", "does not exist"},
		"too long": {"/model/m/converse", "Bearer sesame", `{"messages":[{"content":[{"text":"a"}]}]}`, 400,
			"ValidationException:", "maximum context length"},
	} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URLs()[0]+c.path, strings.NewReader(c.body))
		r.Header.Set("Authorization", c.key)
		resp, err := p.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		exception := resp.Header.Get("X-Amzn-Errortype")
		if resp.StatusCode != c.status || !strings.HasPrefix(exception, c.exception) ||
			!strings.HasPrefix(string(b), `{"message":`) || !strings.Contains(string(b), c.says) {
			t.Errorf("%s: %d %s %s", name, resp.StatusCode, exception, b)
		}
	}
}

// Thoughts are parts of their own, each frame has the usage so far, and the last one the finish reason. Without alt=sse
// the same objects are the elements of an array.
func TestGeminiStreams(t *testing.T) {
	frame := func(parts, finish, usage string) string {
		return `{"candidates":[{"content":{"parts":[` + parts + `],"role":"model"}` + finish +
			`,"index":0}],"usageMetadata":{"promptTokenCount":2,` + usage + `},"modelVersion":"m","responseId":"r"}`
	}
	const prompt = `"promptTokensDetails":[{"modality":"TEXT","tokenCount":2}]`
	for name, c := range map[string]struct {
		finishFrame bool
		frames      []string
	}{
		"with the last token": {false, []string{
			frame(`{"text":" water","thought":true}`, "", `"totalTokenCount":3,`+prompt+`,"thoughtsTokenCount":1`),
			frame(`{"text":" rises"}`, "", `"candidatesTokenCount":1,"totalTokenCount":4,`+prompt+
				`,"thoughtsTokenCount":1`),
			frame(`{"text":" over"}`, `,"finishReason":"MAX_TOKENS"`,
				`"candidatesTokenCount":2,"totalTokenCount":5,`+prompt+`,"thoughtsTokenCount":1`),
		}},
		"separately": {true, []string{
			frame(`{"text":" water","thought":true}`, "", `"totalTokenCount":3,`+prompt+`,"thoughtsTokenCount":1`),
			frame(`{"text":" rises"}`, "", `"candidatesTokenCount":1,"totalTokenCount":4,`+prompt+
				`,"thoughtsTokenCount":1`),
			frame(`{"text":" over"}`, "", `"candidatesTokenCount":2,"totalTokenCount":5,`+prompt+
				`,"thoughtsTokenCount":1`),
			frame(`{"text":""}`, `,"finishReason":"MAX_TOKENS"`,
				`"candidatesTokenCount":2,"totalTokenCount":5,`+prompt+`,"thoughtsTokenCount":1`),
		}},
	} {
		cfg := fast()
		cfg.Frames.ReasoningTokens, cfg.Frames.FinishFrame = 1, c.finishFrame
		want := "data: " + strings.Join(c.frames, "\r\n\r\ndata: ") + "\r\n\r\n"
		if diff := cmp.Diff(want, handled(t, cfg, asks["gemini"].path, asks["gemini"].body)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		want = "[" + strings.Join(c.frames, ",\r\n") + "]"
		if diff := cmp.Diff(want, handled(t, cfg, asks["vertex"].path, asks["vertex"].body)); diff != "" {
			t.Errorf("%s, as an array: %s", name, diff)
		}
	}
}

// Without includeThoughts the reasoning takes its time and counts, and is not sent.
func TestGeminiHidesThoughts(t *testing.T) {
	cfg := fast()
	cfg.Frames.ReasoningTokens = 2
	body := strings.Replace(asks["gemini"].body, "true", "false", 1)
	got := handled(t, cfg, asks["gemini"].path, body)
	if strings.Count(got, "data: ") != 1 || strings.Contains(got, "thought\"") ||
		!strings.Contains(got, `"parts":[{"text":" over"}]`) || !strings.Contains(got,
		`"candidatesTokenCount":1,"totalTokenCount":5,`) || !strings.Contains(got, `"thoughtsTokenCount":2`) {
		t.Error(got)
	}
}

func TestGeminiBodyAndCount(t *testing.T) {
	cfg := fast()
	cfg.Frames.ReasoningTokens, cfg.Model.CacheBlocks, cfg.Model.CacheBlockTokens = 1, 10, 1
	cfg.Truth.Keep = true
	p := start(t, cfg)
	path, body := unstreamed("gemini")
	p.get(path, "r", body)
	want := `{"candidates":[{"content":{"parts":[{"text":" water","thought":true},{"text":" rises over"}],"role":"model"},` +
		`"finishReason":"MAX_TOKENS","index":0}],"usageMetadata":{"promptTokenCount":2,"candidatesTokenCount":2,` +
		`"totalTokenCount":5,"cachedContentTokenCount":1,"promptTokensDetails":[{"modality":"TEXT","tokenCount":2}],` +
		`"thoughtsTokenCount":1},"modelVersion":"m","responseId":"r"}`
	if _, got := p.get(path, "r", body); got != want {
		t.Error(cmp.Diff(want, got))
	}
	count := strings.Replace(path, "generateContent", "countTokens", 1)
	want = `{"totalTokens":2,"promptTokensDetails":[{"modality":"TEXT","tokenCount":2}]}`
	for _, body := range []string{body, `{"generateContentRequest":` + body + `}`} {
		if _, got := p.get(count, "", body); got != want {
			t.Error(cmp.Diff(want, got))
		}
	}
	p.stop()
	if n := len(p.Records()); n != 2 {
		t.Errorf("%d records: counting tokens is recorded", n)
	}
}

func TestGeminiErrors(t *testing.T) {
	cfg := fast()
	cfg.ModelName, cfg.APIKey = "m", "sesame"
	p := start(t, cfg)
	const m, array = "/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent"
	for name, c := range map[string]struct {
		path, key, body string
		status          int
		starts          string
	}{
		"no key":             {m, "", `{}`, 401, `{"error":{"code":401,"message":"Incorrect`},
		"no key for a count": {"/v1beta/models/m:countTokens", "", `{}`, 401, `{"error":{"code":401,`},
		"key in the query":   {m + "?key=sesame", "", `{}`, 400, `{"error":{"code":400,"message":"contents is missing`},
		"no contents":        {m, "sesame", `{}`, 400, `{"error":{"code":400,"message":"contents is missing`},
		"in an array":        {array, "sesame", `{}`, 400, `[{"error":{"code":400,"message":"contents is missing`},
		"as events":          {array + "?alt=sse", "sesame", `{}`, 400, `{"error":{"code":400,`},
		"no parts": {m, "sesame", `{"contents":[{}]}`, 400,
			`{"error":{"code":400,"message":"contents[0].parts is missing`},
		"candidates": {m, "sesame", `{"generationConfig":{"candidateCount":2}}`, 400,
			`{"error":{"code":400,"message":"generationConfig.candidateCount is 2`},
		"unknown model": {"/v1beta/models/x:generateContent", "sesame", `{}`, 404, `{"error":{"code":404,`},
		"unknown verb":  {"/v1beta/models/m:embedContent", "sesame", `{}`, 404, `{"error":`},
	} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URLs()[0]+c.path, strings.NewReader(c.body))
		r.Header.Set("X-Goog-Api-Key", c.key)
		resp, err := p.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != c.status || !strings.HasPrefix(string(b), c.starts) {
			t.Errorf("%s: %d %s", name, resp.StatusCode, b)
		}
	}
}
