package simulator

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

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
	cfg.Textless.Share = 0.5
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
	for _, together := range []int{1, 3} {
		cfg := fast()
		cfg.Truth = config.Truth{Stamp: true, Keep: true, Tokens: true}
		cfg.Frames.FramesPerWrite = together
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
		if len(sent) != 3 || sent[2] != last[2] || together == 1 && !cmp.Equal(sent, last) || sent[0] > last[0] {
			t.Errorf("%d a write: sent at %d, recorded %d", together, sent, last)
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
		"no key":    {"/model/m/converse", "", `{}`, 403, "MissingAuthenticationTokenException", "Missing"},
		"wrong key": {"/model/m/converse", "Bearer x", `{}`, 403, "UnrecognizedClientException", "invalid"},
		"signed": {"/model/m/converse", "AWS4-HMAC-SHA256 x", `{}`, 403, "UnrecognizedClientException",
			"invalid"},
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

// With a secret, requests must be signed with it or carry the key.
func TestBedrockSignature(t *testing.T) {
	cfg := fast()
	cfg.AWSSecret = "secret"
	p := start(t, cfg)
	ask := asks["bedrock"]
	for secret, want := range map[string]struct {
		status    int
		exception string
	}{"secret": {200, ""}, "other": {403, "InvalidSignatureException"},
		"": {403, "MissingAuthenticationTokenException"}} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URLs()[0]+ask.path,
			strings.NewReader(ask.body))
		if secret != "" {
			digest := sha256.Sum256([]byte(ask.body))
			err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: secret},
				r,
				hex.EncodeToString(digest[:]), "bedrock", "us-east-1", time.Now())
			if err != nil {
				t.Fatal(err)
			}
		}
		resp, err := p.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if got := resp.Header.Get("X-Amzn-Errortype"); resp.StatusCode != want.status || got != want.exception {
			t.Errorf("signed with %q: %d %s %s", secret, resp.StatusCode, got, b)
		}
	}
}
