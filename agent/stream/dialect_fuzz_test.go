package stream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/bodies"
	"github.com/spate-load/spate/api/jsonscan"
)

// jsonValue is a decoded JSON value with access to its members.
type jsonValue struct{ v any }

func (v jsonValue) at(names ...string) jsonValue {
	for _, n := range names {
		o, _ := v.v.(map[string]any)
		v = jsonValue{o[n]}
	}
	return v
}

func (v jsonValue) has(name string) bool {
	o, _ := v.v.(map[string]any)
	_, ok := o[name]
	return ok
}

func (v jsonValue) text() string { s, _ := v.v.(string); return s }
func (v jsonValue) filled() bool { return isFilled(v.v) }
func (v jsonValue) list() []any  { l, _ := v.v.([]any); return l }
func (v jsonValue) count() (n uint64, given bool) {
	number, _ := v.v.(json.Number)
	return jsonscan.DecodeCount([]byte(number))
}

// meaning is what a frame means.
type meaning struct {
	event                 string
	token, end, failed    bool
	chunk, closes         bool
	reasoning, thought    bool
	finish, answer        string
	usage, hasInput, hits bool
	output, input         uint64
	cached                uint64
}

func (m *meaning) tokens(input, cached, output jsonValue) {
	m.input, m.hasInput = input.count()
	m.cached, m.hits = cached.count()
	m.output, m.usage = output.count()
}

// meanings parse a frame the slow and obvious way, by each API's documentation.
var meanings = map[string]func(v jsonValue, m *meaning){
	"responses": func(v jsonValue, m *meaning) {
		switch kind := v.at("type").text(); {
		case kind == "response.output_text.delta":
			m.token, m.answer, m.chunk = v.at("delta").filled(), v.at("delta").text(), true
		case kind == "response.output_item.added":
			m.token = v.at("item", "name").filled()
		case kind == "response.completed" || kind == "response.incomplete" || kind == "response.failed":
			m.end, m.closes = true, true
			m.response(v.at("response"), kind == "response.failed")
		case kind == "error":
			m.failed = true
		case v.at("object").text() == "response":
			m.response(v, false)
			m.outputs(v.at("output"))
			m.chunk = true
		case v.at("error").filled():
			m.failed = true
		case strings.HasSuffix(kind, ".delta"):
			m.token, m.chunk = v.at("delta").filled(), kind == "response.reasoning_text.delta"
			m.reasoning = m.token && strings.Contains(kind, "reasoning")
		case strings.HasSuffix(kind, ".done"):
			m.closes = true
		}
	},
	"sglang": func(v jsonValue, m *meaning) {
		if m.failed = v.at("error").filled(); m.failed {
			return
		}
		m.answer, m.chunk = v.at("text").text(), true
		m.token = m.answer != ""
		if !v.has("text") {
			m.token = v.at("output_ids").filled()
		}
		meta := v.at("meta_info")
		m.tokens(meta.at("prompt_tokens"), meta.at("cached_tokens"), meta.at("completion_tokens"))
		m.finish = meta.at("finish_reason").text()
		switch kind := meta.at("finish_reason", "type").text(); kind {
		case "":
		default:
			m.finish = kind
		}
	},
	"tgi": func(v jsonValue, m *meaning) {
		if m.failed = v.at("error").filled(); m.failed {
			return
		}
		_, m.end = v.at("generated_text").v.(string)
		switch {
		case !v.has("token"):
			m.answer = v.at("generated_text").text()
		case v.at("token", "special").v != true:
			m.answer = v.at("token", "text").text()
		}
		m.token = m.answer != "" || v.at("token").filled()
		m.chunk = m.token
		m.finish = v.at("details", "finish_reason").text()
		m.tokens(v.at("details", "input_length"), jsonValue{}, v.at("details", "generated_tokens"))
	},
	"triton": func(v jsonValue, m *meaning) {
		if m.failed = v.at("error").filled(); !m.failed {
			m.answer, m.chunk = v.at("text_output").text(), v.has("text_output")
			m.token = m.answer != ""
		}
	},
	"anthropic": func(v jsonValue, m *meaning) {
		switch v.at("type").text() {
		case "content_block_delta":
			m.block(v.at("delta"))
			m.chunk = true
		case "content_block_start":
			m.block(v.at("content_block"))
			m.chunk = m.token
		case "content_block_stop":
			m.closes = true
		case "message_start":
			m.spent(v.at("message", "usage"))
			m.output, m.usage = 0, false
		case "message_delta":
			m.finish, m.closes = v.at("delta", "stop_reason").text(), true
			m.spent(v.at("usage"))
		case "message_stop":
			m.end = true
		case "message":
			for _, b := range v.at("content").list() {
				before := m.answer
				if m.block(jsonValue{b}); before != "" {
					m.answer = before
				}
			}
			m.finish, m.chunk = v.at("stop_reason").text(), true
			m.spent(v.at("usage"))
		default:
			m.failed = v.at("error").filled()
		}
	},
	"gemini": func(v jsonValue, m *meaning) {
		if m.failed = v.at("error").filled(); m.failed {
			return
		}
		m.finish = v.at("promptFeedback", "blockReason").text()
		for _, c := range v.at("candidates").list() {
			m.candidate(jsonValue{c})
		}
		u := v.at("usageMetadata")
		m.tokens(u.at("promptTokenCount"), u.at("cachedContentTokenCount"), u.at("candidatesTokenCount"))
		var thoughts uint64
		if thoughts, m.thought = u.at("thoughtsTokenCount").count(); m.thought {
			m.output, m.usage = m.output+thoughts, true
		}
	},
	"bedrock": func(v jsonValue, m *meaning) {
		if m.failed = strings.HasSuffix(m.event, "Exception") || m.event == "" && v.at("message").filled(); m.failed {
			return
		}
		switch m.event {
		case "contentBlockDelta":
			m.converse(v.at("delta"))
		case "contentBlockStart":
			m.converse(v.at("start"))
		case "contentBlockStop":
			m.closes = true
		case "messageStop":
			m.finish, m.closes = v.at("stopReason").text(), true
		case "metadata":
			m.end = true
			m.converseUsage(v.at("usage"))
		case "":
			for _, b := range v.at("output", "message", "content").list() {
				m.converse(jsonValue{b})
			}
			m.finish, m.chunk = v.at("stopReason").text(), true
			m.converseUsage(v.at("usage"))
		}
	},
}

func (m *meaning) candidate(v jsonValue) {
	m.chunk = true
	if reason := v.at("finishReason").text(); reason != "" {
		m.finish = reason
	}
	number, _ := v.at("index").count()
	for _, p := range v.at("content", "parts").list() {
		part := jsonValue{p}
		thought := part.at("thought").v == true
		m.token = m.token || part.at("text").filled() || part.at("functionCall").filled() ||
			part.at("executableCode").filled()
		m.reasoning = m.reasoning || thought && part.at("text").filled()
		if number == 0 && !thought && m.answer == "" {
			m.answer = part.at("text").text()
		}
	}
}

func (m *meaning) converse(v jsonValue) {
	for _, output := range []jsonValue{v.at("text"), v.at("reasoningContent", "text"), v.at("toolUse", "name"),
		v.at("reasoningContent", "reasoningText", "text"), v.at("toolUse", "input")} {
		m.token = m.token || output.filled()
		m.chunk = m.chunk || output.filled() || output.v == ""
	}
	m.reasoning = m.reasoning || v.at("reasoningContent", "text").filled() ||
		v.at("reasoningContent", "reasoningText", "text").filled()
	if m.answer == "" {
		m.answer = v.at("text").text()
	}
}

func (m *meaning) converseUsage(v jsonValue) {
	m.tokens(v.at("inputTokens"), v.at("cacheReadInputTokens"), v.at("outputTokens"))
	if written, _ := v.at("cacheWriteInputTokens").count(); m.hasInput {
		m.input += m.cached + written
	}
}

func (m *meaning) response(v jsonValue, failed bool) {
	m.finish = v.at("status").text()
	if failed {
		m.finish = "failed"
	}
	if api.EndingOf(m.finish) == api.EndingAborted {
		return
	}
	if m.failed = v.at("error").filled(); m.failed {
		m.finish = ""
		return
	}
	if why := v.at("incomplete_details", "reason").text(); why != "" {
		m.finish = why
	}
	u := v.at("usage")
	m.tokens(u.at("input_tokens"), u.at("input_tokens_details", "cached_tokens"), u.at("output_tokens"))
	_, m.thought = u.at("output_tokens_details", "reasoning_tokens").count()
}

func (m *meaning) outputs(v jsonValue) {
	for _, item := range v.list() {
		m.token = m.token || jsonValue{item}.at("arguments").filled()
		for _, p := range (jsonValue{item}).at("content").list() {
			part := jsonValue{p}
			m.token = m.token || part.at("text").filled() || part.at("refusal").filled()
			m.reasoning = m.reasoning || part.at("text").filled() && (jsonValue{item}).at("type").text() == "reasoning"
			if m.answer == "" && part.at("type").text() == "output_text" {
				m.answer = part.at("text").text()
			}
		}
	}
}

func (m *meaning) block(v jsonValue) {
	m.answer = v.at("text").text()
	for _, name := range []string{"text", "thinking", "partial_json", "name", "input"} {
		m.token = m.token || v.at(name).filled()
	}
	m.reasoning = m.reasoning || v.at("thinking").filled()
}

func (m *meaning) spent(v jsonValue) {
	m.tokens(v.at("input_tokens"), v.at("cache_read_input_tokens"), v.at("output_tokens"))
	if written, _ := v.at("cache_creation_input_tokens").count(); m.hasInput {
		m.input += m.cached + written
	}
}

// checkMeaning compares a dialect's parse of a frame with the slow one.
func checkMeaning(t *testing.T, d *bodies.Dialect, read func(v jsonValue, m *meaning), e event) {
	t.Helper()
	data := []byte(e.data)
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	var top map[string]any
	valid := json.Valid(data) && decoder.Decode(&top) == nil && top != nil
	var f api.Frame
	err := d.Parse(api.Event{Name: []byte(e.name), Data: data, Failed: e.failed()}, &f)
	if (err == nil) != (valid || e.failed()) {
		t.Fatalf("%s %q: error %v, sound %v", e.name, data, err, valid)
	}
	if !valid {
		return
	}
	want := meaning{event: e.name}
	read(jsonValue{top}, &want)
	token := f.Token || f.Span != api.SpanPiece && len(f.Answer) > 0 // the exchange removes what earlier frames had
	got := meaning{
		e.name, token, f.End, f.Failed, f.Chunk, f.Closes, f.Reasoning, f.HasReasoningTokens, string(f.Finish),
		want.answer,
		f.HasOutput, f.HasInput, f.HasCached, f.Output, f.Input, f.Cached,
	}
	if got != want {
		t.Fatalf("%s %q:\n got %+v\nwant %+v", e.name, data, got, want)
	}
	checkSameAnswer(t, f.Answer, want.answer)
}

// fuzzFrames compares a dialect's parse of an API's frames with one by encoding/json.
func fuzzFrames(f *testing.F, apiName string) {
	d, err := bodies.DialectOf(apiName, "", false)
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range allEvents(forms[apiName]) {
		f.Add(e.name, []byte(e.data))
	}
	for _, data := range oddFrames[apiName] {
		f.Add("", []byte(data))
	}
	f.Add("", []byte(forms[apiName].whole))
	f.Add("", []byte(forms[apiName].refusal))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		checkMeaning(t, d, meanings[apiName], event{name, string(data)})
	})
}

// allEvents returns events of each kind.
func allEvents(f form) []event {
	all := append(append(f.stream(), f.unusual...), f.empty([]string{"a"}), f.failure)
	for _, e := range []event{f.reasoning, f.tool} {
		if e.data != "" {
			all = append(all, e)
		}
	}
	return all
}

func FuzzResponsesFrames(f *testing.F) { fuzzFrames(f, "responses") }
func FuzzSGLangFrames(f *testing.F)    { fuzzFrames(f, "sglang") }
func FuzzTGIFrames(f *testing.F)       { fuzzFrames(f, "tgi") }
func FuzzTritonFrames(f *testing.F)    { fuzzFrames(f, "triton") }
func FuzzAnthropicFrames(f *testing.F) { fuzzFrames(f, "anthropic") }
func FuzzGeminiFrames(f *testing.F)    { fuzzFrames(f, "gemini") }
func FuzzBedrockFrames(f *testing.F)   { fuzzFrames(f, "bedrock") }

// oddFrames are frames that other servers send, and frames that no server should send: members in another order, with
// escapes, twice, or of another type.
var oddFrames = map[string][]string{
	"responses": {
		`{"delta":"a","type":"response.output_text.delta"}`, `{"type":"response.output_text.\u0064elta","delta":"a"}`,
		`{"\u0074ype":"response.output_text.delta","delta":"\ud83d"}`,
		`{"type":"response.output_text.delta","delta":7}`,
		`{"type":"response.output_text.delta","type":"x","delta":"a"}`, `{"type":"response.failed"}`,
		`{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"m"},"usage":null}}`,
		`{"type":"response.failed","response":{"error":"x"}}`,
		`{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":3.0,"output_tokens":null}}}`,
		`{"type":"error","code":"c","message":"m","param":null}`, `{"type":"error","error":{"code":"c","message":"m"}}`,
		`{"error":{"message":"m"}}`,
		`{"type":"response.output_item.added","item":{"type":"function_call","name":"f","arguments":""}}`,
		`{"object":"response","status":"completed","output":[{"type":"function_call","arguments":"{}"},7,{"content":7}]}`, `{"object":"response","error":{"message":"m"}}`,
		`{"type":"response.completed","response":[]}`, `{"type":null}`,
		`{"type":"response.mcp_call_arguments.delta","delta":"x"}`,
	},
	"sglang": {
		`{"text":"a","meta_info":{"finish_reason":"stop","completion_tokens":1}}`, `{"text":"","output_ids":[1]}`,
		`{"output_ids":[1],"meta_info":{"completion_tokens":1}}`,
		`{"text":null,"output_ids":[1]}`,
		`{"text":"a","meta_info":{"finish_reason":{"type":"abort","message":"m","status_code":500}}}`,
		`{"text":"a","meta_info":{"finish_reason":{"type":"abort"}}}`,
		`{"text":"a","meta_info":{"prompt_tokens":-1,"completion_tokens":1e2,"cached_tokens":"4"}}`,
		`{"text":"a","meta_info":{"completion_tokens":1,"completion_tokens":2}}`, `{"error":"m"}`, `{"error":{}}`,
		`{"error":null,"text":"a"}`, `{"text":["a"]}`, `{"meta_info":[]}`,
	},
	"tgi": {
		`{"token":{"text":"a","special":false}}`, `{"token":{"text":"a","special":null}}`,
		`{"token":{"text":"</s>","special":true},"generated_text":""}`,
		`{"token":null,"generated_text":"a"}`,
		`{"generated_text":"a","details":{"finish_reason":"eos_token","generated_tokens":3}}`, `{"token":"a"}`,
		`{"error":"m"}`,
		`{"error":"m","error_type":"overloaded"}`, `{"error":"","error_type":"overloaded"}`,
		`{"token":{"text":"\"","special":false}}`, `{"token":{"text":"a","text":"b"}}`,
	},
	"triton": {
		`{"text_output":"a"}`, `{"text_output":["a"]}`, `{"text_output":null}`, `{"text_output":7}`, `{"error":["x"]}`,
		`{"text_output":"a","error":""}`, `{"text\u005foutput":"a"}`,
	},
	"anthropic": {
		`{"type":"content_block_delta","delta":{"text":"a"}}`,
		`{"type":"content_block_delta","delta":{"type":"citations_delta","citation":{}}}`,
		`{"type":"content_block_start","content_block":{"type":"tool_use","id":"x","name":"f","input":{}}}`,
		`{"type":"content_block_start","content_block":{"type":"text","text":"a"}}`,
		`{"type":"message_start","message":{"usage":{"input_tokens":3,"cache_creation_input_tokens":5,"cache_read_input_tokens":null}}}`, `{"type":"message_start"}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":7,"output_tokens":9,"cache_read_input_tokens":4}}`,
		`{"type":"message_delta","delta":{"stop_reason":null}}`, `{"type":"error"}`,
		`{"type":"error","error":{"type":"api_error"}}`, `{"type":"error","error":"m"}`,
		`{"error":{"message":"m"}}`, `{"type":"message","content":"a"}`,
		`{"type":"message","content":[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"tool_use","name":"f","input":{"a":1}}],"stop_reason":"tool_use"}`,
		`{"type":"message_sto\u0070"}`,
	},
	"gemini": {
		`{"candidates":[{"content":{"parts":[{"text":"a"},{"text":"b","thought":true},{"text":"c"}]}}]}`,
		`{"candidates":[{"index":1,"content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"b"}]}}]}`,
		`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}]},"finishReason":"STOP"}]}`,
		`{"candidates":[{"content":{"parts":[{"text":"a","thought":"true"}]}}]}`, `{"candidates":[7,{"content":[]}]}`,
		`{"candidates":{}}`, `{"usageMetadata":{"promptTokenCount":3,"thoughtsTokenCount":5}}`,
		`{"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2,"thoughtsTokenCount":null}}`,
		`{"promptFeedback":{"blockReason":"SAFETY"}}`, `{"error":{"code":429,"message":"m","status":"X"}}`,
		`{"error":"m"}`, `{"candidates":[{"content":{"parts":[{"\u0074ext":"a"}]}}]}`,
		`{"candidates":[` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `,{"content":{"parts":[{"text":"a"}]}}]}`,
	},
	"bedrock": {
		`{"output":{"message":{"content":[{"text":"a"},{"text":"b"},{"toolUse":{"name":"f","input":{"a":1}}}]}}}`,
		`{"output":{"message":{"content":[{"reasoningContent":{"reasoningText":{"text":"hm"}}}]}},"stopReason":"end_turn"}`,
		`{"message":"m"}`, `{"message":7}`, `{"usage":{"inputTokens":3,"cacheWriteInputTokens":2}}`,
	},
}

// TestUnusualFrames checks unusual frames, whole and truncated at each byte.
func TestUnusualFrames(t *testing.T) {
	for apiName, read := range meanings {
		d, err := bodies.DialectOf(apiName, "", false)
		if err != nil {
			t.Fatal(err)
		}
		all := allEvents(forms[apiName])
		for _, data := range append(slices.Clone(oddFrames[apiName]), ``, `null`, `[]`, `7`, `{}`, `{"a":`, `{}{}`,
			forms[apiName].whole, forms[apiName].refusal) {
			all = append(all, event{data: data})
		}
		for _, e := range all {
			for i := range len(e.data) + 1 {
				checkMeaning(t, d, read, event{e.name, e.data[:i]})
			}
		}
	}
}

// fuzzStream plays any bytes as a stream of an API, and checks that reports do not depend on how the bytes are split.
func fuzzStream(f *testing.F, apiName string) {
	form := forms[apiName]
	c := form.client(f, apiName, "http://h")
	for _, sc := range streamCases {
		if events, _ := sc.make(form); events != nil {
			f.Add([]byte(form.encode(events...)), uint16(1), uint16(7))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, first, step uint16) {
		if len(body) > 1<<16 {
			return
		}
		var cuts []int
		for i := int(first); i < len(body); i += 1 + int(step) {
			cuts = append(cuts, i)
		}
		whole, cut := play(c, body, io.EOF), play(c, body, io.EOF, cuts...)
		if outcomeOf(whole) != outcomeOf(cut) {
			t.Fatalf("%q cut at %v:\n got %+v\nwant %+v", body, cuts, outcomeOf(cut), outcomeOf(whole))
		}
		checkInvariants(t, cut)
	})
}

// checkInvariants checks invariants of any observation.
func checkInvariants(t *testing.T, o *Observation) {
	t.Helper()
	switch {
	case len(o.Gaps(nil)) != max(int(o.TokenFrames), 1)-1, (o.TokenFrames == 0) != (o.FirstToken == 0):
		t.Fatalf("%d tokens, %d gaps, first token %v", o.TokenFrames, len(o.Gaps(nil)), o.FirstToken)
	case !slices.IsSorted(o.Frames) &&
		!slices.IsSortedFunc(o.Frames, func(a, b Frame) int { return cmp.Compare(a.At(), b.At()) }):
		t.Fatalf("frames out of order: %v", o.Frames)
	case slices.ContainsFunc(o.Frames, func(f Frame) bool { return f&frameUndecided != 0 }):
		t.Fatal("a frame is not decided")
	case o.Err == nil && o.TokenFrames == 0:
		t.Fatal("complete without a token")
	case o.Err != nil && (o.Err.Message == "" || len(o.Err.Message) > messageLimit || o.Err.Class == 0):
		t.Fatalf("error %+v", o.Err)
	case !o.Usage && o.OutputTokens != o.TokenFrames:
		t.Fatalf("%d tokens in %d frames without usage", o.OutputTokens, o.TokenFrames)
	case !json.Valid([]byte(`"` + string(o.Answer) + `"`)):
		t.Fatalf("answer %q", o.Answer)
	}
}

func FuzzChatStream(f *testing.F)        { fuzzStream(f, "chat") }
func FuzzCompletionsStream(f *testing.F) { fuzzStream(f, "completions") }
func FuzzResponsesStream(f *testing.F)   { fuzzStream(f, "responses") }
func FuzzSGLangStream(f *testing.F)      { fuzzStream(f, "sglang") }
func FuzzTGIStream(f *testing.F)         { fuzzStream(f, "tgi") }
func FuzzTritonStream(f *testing.F)      { fuzzStream(f, "triton") }
func FuzzAnthropicStream(f *testing.F)   { fuzzStream(f, "anthropic") }
func FuzzGeminiStream(f *testing.F)      { fuzzStream(f, "gemini") }
func FuzzBedrockStream(f *testing.F)     { fuzzStream(f, "bedrock") }

func isFilled(v any) bool {
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

// checkSameAnswer checks the text between the quotes of a JSON string, before and after jsonscan.Repair.
func checkSameAnswer(t *testing.T, answer []byte, want string) {
	t.Helper()
	for _, a := range [][]byte{answer, jsonscan.Repair(bytes.Clone(answer))} {
		var got string
		if err := json.Unmarshal(slices.Concat([]byte{'"'}, a, []byte{'"'}), &got); err != nil || got != want {
			t.Fatalf("answer %q: %q, want %q: %v", a, got, want, err)
		}
	}
}

// BenchmarkDialects measures the parse of one token's frame in each API.
func BenchmarkDialects(b *testing.B) {
	for apiName, f := range forms {
		b.Run(apiName, func(b *testing.B) {
			d, err := bodies.DialectOf(apiName, "", false)
			if err != nil {
				b.Fatal(err)
			}
			data := []byte(f.token(" word", nil).data)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			var fr api.Frame
			for b.Loop() {
				if d.Parse(api.Event{Data: data}, &fr) != nil || !fr.Token {
					b.Fatal("no token")
				}
			}
		})
	}
}
