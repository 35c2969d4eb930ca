package registry

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/jsonscan"
)

// oracle parses a frame the slow and obvious way, from plain decoded values and independent of decodeFrame.
func oracle(data []byte) (f api.Frame, valid bool) {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	var top map[string]any
	if !json.Valid(data) || d.Decode(&top) != nil || top == nil {
		return api.Frame{}, false
	}
	usageOracle(top["usage"], &f)
	choices, _ := top["choices"].([]any)
	for _, c := range choices {
		f.Chunk = true
		choice, _ := c.(map[string]any)
		usageOracle(choice["usage"], &f)
		f.HasAnswer = f.HasAnswer || holdsSomething(choice["text"])
		f.EmptyText = f.EmptyText || choice["text"] == ""
		for _, part := range []any{choice["delta"], choice["message"]} {
			delta, _ := part.(map[string]any)
			for _, name := range []string{"content", "tool_calls", "function_call", "refusal"} {
				thought := name == "content" && thinks(delta[name])
				f.HasAnswer = f.HasAnswer || holdsSomething(delta[name]) && !thought
				f.Reasoning = f.Reasoning || thought
				f.EmptyText = f.EmptyText || delta[name] == ""
			}
			for _, name := range []string{"reasoning_content", "reasoning"} {
				f.Reasoning = f.Reasoning || holdsSomething(delta[name])
				f.EmptyText = f.EmptyText || delta[name] == ""
			}
			f.Reasoning = f.Reasoning || holdsSomething(delta["reasoning_details"])
			f.Role = f.Role || holdsSomething(delta["role"])
		}
		f.Token = f.Token || f.HasAnswer || f.Reasoning || holdsSomething(choice["token_ids"])
		if len(f.Answer) == 0 {
			f.Answer = []byte(answerOracle(choice))
		}
		if len(f.Calls) == 0 {
			f.Calls = callsOracle(choice)
		}
		if reason, _ := choice["finish_reason"].(string); reason != "" {
			f.Finish = []byte(reason)
		}
	}
	groq, _ := top["x_groq"].(map[string]any)
	usageOracle(groq["usage"], &f)
	f.Failed = top["object"] == "error" || holdsSomething(top["error"])
	return f, true
}

// usageOracle sets the counts of a usage, unless the frame has some.
func usageOracle(value any, f *api.Frame) {
	usage, _ := value.(map[string]any)
	number := func(of map[string]any, name string) (uint64, bool) {
		n, _ := of[name].(json.Number)
		return jsonscan.DecodeCount([]byte(n))
	}
	output, given := number(usage, "completion_tokens")
	if f.HasOutput || !given {
		return
	}
	f.Output, f.HasOutput = output, true
	f.Input, f.HasInput = number(usage, "prompt_tokens")
	details, _ := usage["prompt_tokens_details"].(map[string]any)
	if f.Cached, f.HasCached = number(details, "cached_tokens"); !f.HasCached {
		f.Cached, f.HasCached = number(usage, "prompt_cache_hit_tokens")
	}
	more, _ := usage["completion_tokens_details"].(map[string]any)
	f.ReasoningTokens, f.HasReasoningTokens = number(more, "reasoning_tokens")
	if total, given := number(usage, "total_tokens"); given && f.HasInput && total-f.Input-f.Output == f.ReasoningTokens {
		f.Output += f.ReasoningTokens
	}
}

// thinks reports whether a content is a list of parts one of which is a thought.
func thinks(content any) (thought bool) {
	parts, _ := content.([]any)
	for _, p := range parts {
		part, ok := p.(map[string]any)
		if !ok && p != nil {
			return false
		}
		thought = thought || part["type"] == "thinking"
	}
	return thought
}

// answerOracle returns the decoded content of a choice if it is the first choice.
func answerOracle(choice map[string]any) string {
	index, _ := choice["index"].(json.Number)
	if n, ok := jsonscan.DecodeCount([]byte(index)); ok && n != 0 {
		return ""
	}
	for _, part := range []any{choice["delta"], choice["message"], map[string]any{"content": choice["text"]}} {
		content, _ := part.(map[string]any)
		if s, _ := content["content"].(string); s != "" {
			return s
		}
	}
	return ""
}

// callsOracle returns the tool calls of a choice, encoded again, if it is the first choice.
func callsOracle(choice map[string]any) []byte {
	index, _ := choice["index"].(json.Number)
	if n, ok := jsonscan.DecodeCount([]byte(index)); ok && n != 0 {
		return nil
	}
	for _, part := range []string{"delta", "message"} {
		message, _ := choice[part].(map[string]any)
		if calls := message["tool_calls"]; holdsSomething(calls) {
			encoded, err := json.Marshal(calls)
			if err != nil {
				panic(err) // it was decoded
			}
			return encoded
		}
	}
	return nil
}

// holdsSomething reports whether a value is a string, array or object that is not empty.
func holdsSomething(v any) bool {
	switch v := v.(type) {
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return false
}

// checkFrame compares parse with the oracle.
func checkFrame(t *testing.T, data []byte) {
	t.Helper()
	want, valid := oracle(data)
	var got api.Frame
	err := parseOpenAI(api.Event{Data: data}, &got)
	if (err == nil) != valid {
		t.Fatalf("%q: error %v, sound %v", data, err, valid)
	}
	if err != nil {
		return
	}
	if got.Token != want.Token || string(got.Finish) != string(want.Finish) || got.Failed != want.Failed ||
		got.HasOutput != want.HasOutput || got.Input != want.Input || got.Output != want.Output {
		t.Fatalf("%q:\n got %+v\nwant %+v", data, got, want)
	}
	if got.Chunk != want.Chunk || got.Role != want.Role || got.HasAnswer != want.HasAnswer ||
		got.Reasoning != want.Reasoning || got.EmptyText != want.EmptyText ||
		got.ReasoningTokens != want.ReasoningTokens || got.HasReasoningTokens != want.HasReasoningTokens {
		t.Fatalf("%q:\n got %+v\nwant %+v", data, got, want)
	}
	if got.TextBytes > len(data) || (got.TextBytes > 0) != (got.HasAnswer || got.Reasoning) {
		t.Fatalf("%q: %d bytes of text", data, got.TextBytes)
	}
	if got.Cached != want.Cached || got.HasCached != want.HasCached {
		t.Fatalf("%q: cached %d (%v), want %d (%v)", data, got.Cached, got.HasCached, want.Cached, want.HasCached)
	}
	checkAnswer(t, got.Answer, string(want.Answer))
	checkCalls(t, got.Calls, want.Calls)
}

// checkCalls compares two JSON values, or nothing with nothing.
func checkCalls(t *testing.T, got, want []byte) {
	t.Helper()
	if len(got) == 0 && len(want) == 0 {
		return
	}
	d := json.NewDecoder(bytes.NewReader(got))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		t.Fatalf("calls %q: %v", got, err)
	}
	if again, err := json.Marshal(value); err != nil || !bytes.Equal(again, want) {
		t.Fatalf("calls %s, want %s: %v", again, want, err)
	}
}

// checkAnswer checks the text between the quotes of a JSON string.
func checkAnswer(t *testing.T, answer []byte, want string) {
	t.Helper()
	var got string
	if err := json.Unmarshal(slices.Concat([]byte{'"'}, answer, []byte{'"'}), &got); err != nil || got != want {
		t.Fatalf("answer %q: %q, want %q: %v", answer, got, want, err)
	}
}

var frames = []struct {
	name, data string
	token      bool
	scanned    bool // parsed without encoding/json
}{
	{"chat", `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`, true, true},
	{"role", `{"choices":[{"delta":{"role":"assistant","content":""}}]}`, false, true},
	{"token ids", `{"choices":[{"delta":{"content":""},"token_ids":[2]}]}`, true, true},
	{"no token ids", `{"choices":[{"delta":{"content":""},"token_ids":[]}]}`, false, true},
	{"reasoning by usage", `{"choices":[],"usage":{"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":3}}}`, false, true},
	{"no reasoning by usage", `{"usage":{"completion_tokens":5,"completion_tokens_details":null}}`, false, true},
	{"null content", `{"choices":[{"delta":{"content":null}}]}`, false, true},
	{"space is text", `{"choices":[{"delta":{"content":" "}}]}`, true, true},
	{"reasoning_content", `{"choices":[{"delta":{"content":null,"reasoning_content":"hm"}}]}`, true, true},
	{"reasoning", `{"choices":[{"delta":{"reasoning":"hm","content":""}}]}`, true, true},
	{"tool call", `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a"}}]}}]}`, true, true},
	{"tool calls in both", `{"choices":[{"message":{"tool_calls":[{"id":"b"}]},"delta":{"tool_calls":[{"id":"a"}]}}]}`, true, true},
	{"tool call of another choice", `{"choices":[{"index":1,"delta":{"tool_calls":[{"id":"a"}]}},{"delta":{"tool_calls":[7]}}]}`, true, true},
	{"no tool calls", `{"choices":[{"delta":{"tool_calls":[ ]}}]}`, false, true},
	{"completions", `{"choices":[{"text":"x","index":0}]}`, true, true},
	{"empty completions", `{"choices":[{"text":"","finish_reason":"length"}]}`, false, true},
	{"whole chat", `{"choices":[{"message":{"role":"assistant","content":"all of it"}}]}`, true, true},
	{"white space", " {\t\"choices\" :\r\n[ { \"delta\" : { \"content\" : \"a\" } } ] } ", true, true},
	{"keys turned round", `{"usage":null,"choices":[{"finish_reason":"stop","delta":{"x":{"content":""},"content":"a"}}],"error":null}`, true, true},
	{"content in text", `{"choices":[{"delta":{"content":"\"content\":\"\""}}]}`, true, true},
	{"content elsewhere", `{"content":"a","choices":[{"content":"a","logprobs":{"content":[{"token":"a"}]},"delta":{"content":""}}]}`, false, true},
	{"delta elsewhere", `{"delta":{"content":"a"},"choices":[{"delta":{"audio":{"content":"a"}}}]}`, false, true},
	{"escapes", `{"choices":[{"delta":{"content":"\\\"\u00e9\ud83d\ude00\n"}}]}`, true, true},
	{"unicode", `{"choices":[{"delta":{"content":"世界 😀"}}]}`, true, true},
	{"escaped key", `{"choices":[{"delta":{"\u0063ontent":"a"}}]}`, true, false},
	{"key twice", `{"choices":[{"delta":{"content":"a","content":""}}]}`, false, false},
	{"several choices", `{"choices":[{"delta":{"content":""}},{"delta":{"content":"b"}}]}`, true, true},
	{"usage", `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":1}}}`, false, true},
	{"running usage", `{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":5}}`,
		true, true},
	{"usage without a cache", `{"usage":{"prompt_tokens":3,"completion_tokens":5,"prompt_tokens_details":null}}`,
		false, true},
	{"usage of a cache alone", `{"usage":{"prompt_tokens_details":{"audio_tokens":0,"cached_tokens":1}}}`, false, true},
	{"odd cache", `{"usage":{"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":1.0}}}`, false, true},
	{"cache of another type", `{"usage":{"completion_tokens":5,"prompt_tokens_details":[{"cached_tokens":1}]}}`,
		false, true},
	{"usage in a choice", `{"choices":[{"delta":{},"finish_reason":"stop","usage":{"completion_tokens":5}}]}`, false, true},
	{"usage in x_groq", `{"choices":[{"delta":{}}],"x_groq":{"id":"r","usage":{"completion_tokens":5}}}`, false, true},
	{"usage twice", `{"choices":[{"delta":{},"usage":{"completion_tokens":4}}],"usage":{"completion_tokens":5}}`, false, false},
	{"thinking", `{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}}]}`, true, true},
	{"reasoning details", `{"choices":[{"delta":{"content":"","reasoning_details":[{"type":"reasoning.text","text":"hm"}]}}]}`, true, true},
	{"second choice", `{"choices":[{"index":1,"delta":{"content":"b"}}]}`, true, true},
	{"second choice first", `{"choices":[{"delta":{"content":"b"},"index":1},{"delta":{"content":"a"},"index":0}]}`,
		true, true},
	{"first choice twice", `{"choices":[{"index":0,"delta":{"content":"a"}},{"index":0,"delta":{"content":"b"}}]}`,
		true, true},
	{"odd index", `{"choices":[{"index":1.0,"delta":{"content":"a"}},{"index":"x","delta":{"content":"b"}}]}`,
		true, true},
	{"content everywhere", `{"choices":[{"text":"t","message":{"content":"m"},"delta":{"reasoning_content":"r"}}]}`,
		true, true},
	{"half a pair", `{"choices":[{"delta":{"content":"\ud83d"}}]}`, true, true},
	{"half a pair, odd frame", `{"choices":[{"delta":{"content":"\\ud83d\udE00\ude00"},"\u0066inish_reason":"stop"}]}`,
		true, false},
	{"usage in floats", `{"choices":[],"usage":{"prompt_tokens":3.0,"completion_tokens":5.0}}`, false, true},
	{"usage of nothing", `{"usage":{"completion_tokens":null,"prompt_tokens":1}}`, false, true},
	{"huge usage", `{"usage":{"completion_tokens":99999999999999999999}}`, false, true},
	{"error", `{"error":{"message":"out of memory","code":500}}`, false, false},
	{"error text", `{"error":"out of memory"}`, false, false},
	{"old error", `{"object":"error","message":"out of memory","code":400}`, false, false},
	{"no error", `{"error":{},"choices":[{"delta":{"content":"a"}}]}`, true, false},
	{"content of parts", `{"choices":[{"delta":{"content":[{"type":"text","text":"a"}]}}]}`, true, true},
	{"wrong types", `{"choices":{"delta":{"content":"a"}},"usage":7}`, false, true},
	{"wrong types below", `{"choices":[null,3,{"delta":[],"text":7,"finish_reason":{}}]}`, false, true},
	{"ping", `{"type":"ping"}`, false, true},
}

func TestFrames(t *testing.T) {
	for _, tt := range frames {
		t.Run(tt.name, func(t *testing.T) {
			checkFrame(t, []byte(tt.data))
			var f api.Frame
			if err := parseOpenAI(api.Event{Data: []byte(tt.data)}, &f); err != nil || f.Token != tt.token {
				t.Errorf("token %v, want %v; error %v", f.Token, tt.token, err)
			}
			c := openaiParser{jsonscan.Cursor{B: []byte(tt.data)}}
			f = api.Frame{}
			c.frame(&f)
			if c.End() != tt.scanned {
				t.Errorf("scanned without encoding/json: %v, want %v", c.End(), tt.scanned)
			}
			for i := range tt.data { // no truncated frame is taken as valid
				checkFrame(t, []byte(tt.data[:i]))
			}
		})
	}
}

// TestUsageDialects checks how servers count, each in its own way.
func TestUsageDialects(t *testing.T) {
	for name, tt := range map[string]struct {
		data                             string
		output, input, cached, reasoning uint64
	}{
		"OpenAI": {`{"usage":{"prompt_tokens":20,"completion_tokens":10,"total_tokens":30,
			"completion_tokens_details":{"reasoning_tokens":4}}}`, 10, 20, 0, 4},
		"xAI counts reasoning apart": {`{"usage":{"prompt_tokens":20,"completion_tokens":10,"total_tokens":50,
			"completion_tokens_details":{"reasoning_tokens":20}}}`, 30, 20, 0, 20},
		"no total": {`{"usage":{"prompt_tokens":20,"completion_tokens":10,
			"completion_tokens_details":{"reasoning_tokens":20}}}`, 10, 20, 0, 20},
		"DeepSeek's cache": {`{"usage":{"prompt_tokens":20,"completion_tokens":10,"prompt_cache_hit_tokens":16,
			"prompt_cache_miss_tokens":4,"total_tokens":30}}`, 10, 20, 16, 0},
		"both caches": {`{"usage":{"completion_tokens":10,"prompt_cache_hit_tokens":16,
			"prompt_tokens_details":{"cached_tokens":8}}}`, 10, 0, 8, 0},
		"Moonshot": {`{"choices":[{"delta":{},"usage":{"prompt_tokens":20,"completion_tokens":10}}]}`, 10, 20, 0, 0},
		"Groq":     {`{"choices":[],"x_groq":{"usage":{"prompt_tokens":20,"completion_tokens":10}}}`, 10, 20, 0, 0},
		"two usages": {`{"choices":[{"usage":{"completion_tokens":4}}],"usage":{"prompt_tokens":20,"completion_tokens":10}}`,
			10, 20, 0, 0},
	} {
		var f api.Frame
		err := parseOpenAI(api.Event{Data: []byte(tt.data)}, &f)
		if err != nil || f.Output != tt.output || f.Input != tt.input || f.Cached != tt.cached ||
			f.ReasoningTokens != tt.reasoning {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
		checkFrame(t, []byte(tt.data))
	}
	for _, data := range []string{
		`{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}}]}`,
		`{"choices":[{"delta":{"content":"","reasoning_details":[{"type":"reasoning.text","text":"hm"}]}}]}`,
	} {
		var f api.Frame
		err := parseOpenAI(api.Event{Data: []byte(data)}, &f)
		if err != nil || !f.Token || !f.Reasoning || f.HasAnswer {
			t.Errorf("%s: %+v, %v", data, f, err)
		}
	}
}

func TestFaultMessages(t *testing.T) {
	for data, want := range map[string]string{
		`{"error":{"message":"no memory"}}`:       "no memory",
		`{"error":"no memory"}`:                   "no memory",
		`{"object":"error","message":"too long"}`: "too long",
		`{"error":{"code":7}}`:                    `{"code":7}`,
	} {
		var f api.Frame
		if err := parseOpenAI(api.Event{Data: []byte(data)}, &f); err != nil || !f.Failed || f.Fault != want {
			t.Errorf("%s: %q, %v", data, f.Fault, err)
		}
	}
}

func TestUnusualJSON(t *testing.T) {
	for _, data := range []string{
		``, `null`, `[]`, `7`, `"x"`, `{`, `{}`, `{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a":1e}`,
		`{"a":1e+5,"b":-0.5E-3}`, `{,}`, `{"a":1,}`, `{"a" 1}`,
		`{"a":[1,]}`, `{"a":[,1]}`, `{"a":tru}`, `{"a":nulll}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":"\u12"}`,
		"{\"a\":\"\x01\"}", "{\"a\":\"\x80\xff\"}",
		`{"a":1}{"b":2}`, `{"a":1} x`, `{"choices":[{"delta":{"content":"a"}`,
		`{"choices":[{"delta":{"content":"a"}}]]`,
		`{"choices":[{"finish_reason":"st\u006fp"}]}`, `{"object":"\u0065rror"}`, `{"error":null,"error":{"a":1}}`,
		`{"choices":[{"finish_reason":""}]}`,
		`{"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `,"choices":[{"text":"a"}]}`,
		`{"usage":{"completion_tokens":"5"}}`, `{"usage":{"completion_tokens":-1}}`,
		`{"usage":{"completion_tokens":1e2,"prompt_tokens":true}}`,
		`{"usage":{"completion_tokens":100000000000000000}}`, `{"usage":{"completion_tokens":1000000000000000000}}`,
	} {
		checkFrame(t, []byte(data))
	}
}

func FuzzScan(f *testing.F) {
	for _, tt := range frames {
		f.Add([]byte(tt.data))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkFrame(t, data) })
}

func BenchmarkScan(b *testing.B) {
	data := []byte(`{"id":"cmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":"hello"},"logprobs":null,"finish_reason":null}]}`)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		var f api.Frame
		if parseOpenAI(api.Event{Data: data}, &f) != nil || !f.Token {
			b.Fatal("no token")
		}
	}
}

func BenchmarkScanRunningUsage(b *testing.B) {
	data := []byte(`{"id":"cmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}],"usage":{"prompt_tokens":3000,"completion_tokens":17,"total_tokens":3017}}`)
	b.ReportAllocs()
	for b.Loop() {
		var f api.Frame
		if parseOpenAI(api.Event{Data: data}, &f) != nil || !f.HasOutput {
			b.Fatal("no usage")
		}
	}
}
