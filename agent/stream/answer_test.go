package stream

import (
	"testing"

	"github.com/spate-load/spate/agent/stream/testserver"
)

// contentFrame returns a frame with text, which is inserted between the quotes as it is.
func contentFrame(raw string) string {
	return `data: {"choices":[{"index":0,"delta":{"content":"` + raw + `"},"finish_reason":null}]}` + "\n\n"
}

// answerOf streams frames to a client and returns the answer that the client kept.
func answerOf(t testing.TB, config Config, keep bool, frames ...string) []byte {
	t.Helper()
	parts := []string{chunkedHead}
	for _, f := range append(frames, finishFrame, doneFrame) {
		parts = append(parts, chunk(f))
	}
	s := testserver.NewRaw(t, answer(append(parts, lastChunk)...))
	config.Endpoints = []string{s.URL}
	c := newTestClient(t, config)
	o := Observation{Answer: []byte("of the request before")}
	c.Do(t.Context(), Request{Body: body(c), KeepAnswer: keep}, &o)
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	return o.Answer
}

func TestAnswers(t *testing.T) {
	reasoning := `data: {"choices":[{"delta":{"reasoning_content":"hm","tool_calls":[{"function":{"name":"f"}}],"refusal":"no"}}]}` + "\n\n"
	second := `data: {"choices":[{"index":1,"delta":{"content":"other"}}]}` + "\n\n"
	for name, tt := range map[string]struct {
		want   string
		frames []string
	}{
		"joined":                 {"one two", []string{roleFrame, contentFrame("one"), contentFrame(" two")}},
		"escapes":                {`a\n\"\u00e9\\`, []string{contentFrame(`a\n\"`), contentFrame(`\u00e9\\`)}},
		"reasoning is none":      {"a", []string{reasoning, contentFrame("a"), reasoning}},
		"the first choice only":  {"a", []string{second, contentFrame("a")}},
		"a pair split":           {`\ud83d\ude00`, []string{contentFrame(`\ud83d`), contentFrame(`\ude00`)}},
		"half a pair":            {`\ufffda`, []string{contentFrame(`\ud83d`), contentFrame(`a`)}},
		"half a pair at the end": {`a\ufffd`, []string{contentFrame(`a`), contentFrame(`\uD83D`)}},
		"the wrong half":         {`\ufffd\ufffd`, []string{contentFrame(`\ude00\ud83d`)}},
		"half a pair and a pair": {`\ufffd\ud83d\ude00`, []string{contentFrame(`\ud83d\ud83d\ude00`)}},
		"an escaped backslash":   {`\\ud83d`, []string{contentFrame(`\\ud83d`)}},
		"a character split":      {"é", []string{contentFrame("\xc3"), contentFrame("\xa9")}},
		"broken UTF-8":           {"a\ufffdb", []string{contentFrame("a\xc3"), contentFrame("b")}},
		"completions":            {"one", []string{`data: {"choices":[{"index":0,"text":"one"}]}` + "\n\n"}},
		"a frame of another order": {"one",
			[]string{`data: {"choices":[{"delta":{"\u0063ontent":"one"},"index":0.0}]}` + "\n\n"}},
	} {
		if got := answerOf(t, Config{}, true, tt.frames...); string(got) != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		if got := answerOf(t, Config{}, false, tt.frames...); len(got) != 0 {
			t.Errorf("%s: kept %q unasked", name, got)
		}
	}
}

func TestCachedTokens(t *testing.T) {
	usage := func(details string) string {
		return chunk(`data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"prompt_tokens_details":` +
			details + "}}\n\n")
	}
	for name, tt := range map[string]struct {
		frames   string
		cached   uint64
		reported bool
	}{
		"reported":      {usage(`{"cached_tokens":4}`), 4, true},
		"none":          {usage(`{"cached_tokens":0}`), 0, true},
		"null":          {usage(`null`), 0, false},
		"unknown":       {usage(`{"cached_tokens":null}`), 0, false},
		"reported once": {usage(`{"cached_tokens":4}`) + usage(`null`), 4, true},
		"no usage":      {"", 0, false},
	} {
		s := testserver.NewRaw(t, answer(chunkedHead, chunk(tokenFrame("a")), tt.frames, chunk(doneFrame), lastChunk))
		o := ask(t, newTestClient(t, Config{Endpoints: []string{s.URL}}))
		if o.Err != nil || o.CachedTokens != tt.cached || o.HasCachedTokens != tt.reported {
			t.Errorf("%s: %d, %v (%v)", name, o.CachedTokens, o.HasCachedTokens, o.Err)
		}
	}
}
