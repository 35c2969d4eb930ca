package misbehaving

import (
	"fmt"
	"strconv"
	"strings"
)

// words are the tokens of each valid answer. promptTokens is what the servers count for each prompt.
var words = []string{"one", " two", " three"}

const promptTokens = 11

// usage holds the token counts that a server sends, as written in JSON.
type usage struct{ input, cached, output string }

// truth returns the usage of a valid answer.
func (a api) truth() usage {
	return usage{strconv.Itoa(promptTokens), "4", strconv.Itoa(int(a.tokens()))}
}

// tokens returns the number of tokens of a valid answer.
func (a api) tokens() uint64 { return uint64(len(words)) + a.endToken }

// api is how the answers of an API are written. All texts except whole and refusal are server-sent events.
type api struct {
	name string
	// lead comes before the first token.
	lead string
	// token returns the i-th word, or another text in its place.
	token func(i int, text string) string
	// tail follows the last token: the finish reason and usage, as far as the API sends them before its mark.
	tail func(reason string, u usage) string
	// mark ends the stream. "": the API has none.
	mark func(reason string, u usage) string
	// whole is an answer in one piece, not streamed.
	whole string
	// fault is an error within a stream.
	fault string
	// refusal is the body of an HTTP error.
	refusal string
	// tellsFinish reports whether the tail has a finish reason, so that a stream is complete without its mark.
	tellsFinish bool
	// ends reports whether the tail itself is the end of the stream.
	ends bool
	// usage reports whether the server sends token counts, cached whether it sends those from its cache.
	usage, cached bool
	// endToken is 1 if the end of the output counts as a token.
	endToken uint64
}

// event returns one server-sent event.
func event(data string) string { return "data: " + data + "\n\n" }

// typed returns an event of an API whose events have a "type".
func typed(kind, members string) string {
	return "event: " + kind + "\n" + event(`{"type":"`+kind+`",`+members+`}`)
}

func noMark(string, usage) string { return "" }

func done(string, usage) string { return event("[DONE]") }

// start returns a stream up to the n-th token.
func (a api) start(n int) string {
	var b strings.Builder
	b.WriteString(a.lead)
	for i := range n {
		b.WriteString(a.token(i, words[i]))
	}
	return b.String()
}

// unended returns a stream up to its finish reason.
func (a api) unended() string { return a.start(len(words)) + a.tail("length", a.truth()) }

// stream returns a whole stream with the given usage.
func (a api) stream(u usage) string {
	return a.start(len(words)) + a.tail("length", u) + a.mark("length", u)
}

// sound returns a valid whole stream.
func (a api) sound() string { return a.stream(a.truth()) }

// marked reports whether a stream of the API says that it has ended, so that what follows does not matter.
func (a api) marked() bool { return a.ends || a.mark("", a.truth()) != "" }

func openAI(name, lead, chunk, object string) api {
	frame := func(i int, text, finish string) string {
		return event(fmt.Sprintf(`{"id":"x-1","object":%q,"created":1700000000,"model":"m","choices":[{"index":0,`+
			chunk+`,"finish_reason":%s}]}`,
			object, jsonString(text), finish))
	}
	return api{
		name: name, lead: lead,
		token: func(i int, text string) string { return frame(i, text, "null") },
		tail: func(reason string, u usage) string {
			return frame(0, "", jsonString(reason)) + event(fmt.Sprintf(
				`{"id":"x-1","choices":[],"usage":{"prompt_tokens":%s,"completion_tokens":%s,"prompt_tokens_details":{"cached_tokens":%s}}}`,
				u.input, u.output, u.cached))
		},
		mark: done,
		whole: fmt.Sprintf(`{"id":"x-1","choices":[{"index":0,`+strings.Replace(chunk, "delta", "message", 1)+
			`,"finish_reason":"length"}],`+
			`"usage":{"prompt_tokens":11,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}`,
			`"one two three"`),
		fault:   event(`{"error":{"message":"out of memory","type":"InternalServerError","code":500}}`),
		refusal: `{"error":{"message":"no","type":"BadRequestError","code":400}}`,
		usage:   true, cached: true, tellsFinish: true,
	}
}

// jsonString returns a text as a JSON string.
func jsonString(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}

func responsesAPI() api {
	response := func(status, rest string) string {
		return fmt.Sprintf(`"response":{"id":"resp_1","object":"response","status":%q,"error":null,%s}`, status, rest)
	}
	usageOf := func(u usage) string {
		return fmt.Sprintf(`"usage":{"input_tokens":%s,"input_tokens_details":{"cached_tokens":%s},"output_tokens":%s}`,
			u.input, u.cached, u.output)
	}
	return api{
		name: "responses",
		lead: typed("response.created", response("in_progress", `"output":[],"usage":null`)) +
			typed("response.output_item.added",
				`"output_index":0,"item":{"id":"msg_1","type":"message","content":[],"role":"assistant"}`),
		token: func(_ int, text string) string {
			return typed("response.output_text.delta", `"item_id":"msg_1","output_index":0,"delta":`+jsonString(text))
		},
		tail: func(string, usage) string {
			return typed("response.output_text.done", `"item_id":"msg_1","output_index":0,"text":"one two three"`)
		},
		mark: func(reason string, u usage) string {
			return typed("response.incomplete", response("incomplete",
				`"incomplete_details":{"reason":`+jsonString(reason)+`},"output":[],`+usageOf(u)))
		},
		whole: `{"id":"resp_1","object":"response","status":"completed","error":null,"output":[{"type":"message","role":"assistant",` +
			`"content":[{"type":"output_text","text":"one two three"}]}],` + usageOf(usage{"11", "4", "3"}) + `}`,
		fault:   typed("error", `"error":{"code":"server_error","message":"out of memory"}`),
		refusal: `{"error":{"message":"no","type":"invalid_request_error","code":null}}`,
		usage:   true, cached: true,
	}
}

func sglangAPI() api {
	frame := func(text, finish string, u usage) string {
		return fmt.Sprintf(`{"text":%s,"output_ids":[1],"meta_info":{"id":"a","finish_reason":%s,"prompt_tokens":%s,"completion_tokens":%s,"cached_tokens":%s}}`,
			jsonString(text), finish, u.input, u.output, u.cached)
	}
	all := strings.Join(words, "")
	return api{
		name: "sglang",
		token: func(i int, text string) string {
			soFar := strings.Join(words[:min(i, len(words))], "") + text
			return event(frame(soFar, "null", usage{"11", "4", strconv.Itoa(i + 1)}))
		},
		tail: func(reason string, u usage) string {
			return event(frame(all, `{"type":`+jsonString(reason)+`}`, u))
		},
		mark: done, whole: frame(all, `{"type":"length"}`, usage{"11", "4", "3"}),
		fault: event(`{"error":{"message":"out of memory"}}`), refusal: `{"error":{"message":"no"}}`,
		usage: true, cached: true, tellsFinish: true,
	}
}

func tgiAPI() api {
	frame := func(i int, text, special, whole, details string) string {
		return event(fmt.Sprintf(`{"index":%d,"token":{"id":7,"text":%s,"logprob":-0.5,"special":%s},"generated_text":%s,"details":%s}`,
			i+1, jsonString(text), special, whole, details))
	}
	return api{
		name:  "tgi",
		token: func(i int, text string) string { return frame(i, text, "false", "null", "null") },
		tail: func(reason string, u usage) string {
			return frame(len(words), "</s>", "true", `"one two three"`,
				fmt.Sprintf(`{"finish_reason":%s,"generated_tokens":%s,"input_length":%s}`, jsonString(reason),
					u.output, u.input))
		},
		mark: noMark, whole: `{"generated_text":"one two three","details":{"finish_reason":"length","generated_tokens":4,"input_length":11}}`,
		fault:   event(`{"error":"Request failed during generation: out of memory","error_type":"generation"}`),
		refusal: `{"error":"no","error_type":"validation"}`,
		usage:   true, ends: true, endToken: 1,
	}
}

func tritonAPI() api {
	frame := func(text string) string {
		return fmt.Sprintf(`{"model_name":"m","model_version":"1","sequence_end":false,"text_output":%s}`,
			jsonString(text))
	}
	return api{
		name:  "triton",
		token: func(_ int, text string) string { return event(frame(text)) },
		tail:  func(string, usage) string { return "" },
		mark:  noMark, whole: frame("one two three"),
		fault: event(`{"error":"out of memory"}`), refusal: `{"error":"no"}`,
	}
}

func anthropicAPI() api {
	return api{
		name: "anthropic",
		lead: typed("message_start",
			`"message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"m",`+
				`"usage":{"input_tokens":7,"cache_read_input_tokens":4,"output_tokens":1}}`) +
			typed("content_block_start", `"index":0,"content_block":{"type":"text","text":""}`),
		token: func(_ int, text string) string {
			return typed("content_block_delta", `"index":0,"delta":{"type":"text_delta","text":`+jsonString(text)+`}`)
		},
		tail: func(reason string, u usage) string {
			members := `"output_tokens":` + u.output
			if u.input != "11" { // 4 of them are reported separately, in the lead

				members += `,"input_tokens":` + u.input
			}
			if u.cached != "4" {
				members += `,"cache_read_input_tokens":` + u.cached
			}
			return typed("content_block_stop", `"index":0`) +
				typed("message_delta", `"delta":{"stop_reason":`+jsonString(reason)+`},"usage":{`+members+`}`)
		},
		mark: func(string, usage) string { return typed("message_stop", `"x":0`) },
		whole: `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"one two three"}],"stop_reason":"max_tokens",` +
			`"usage":{"input_tokens":7,"cache_read_input_tokens":4,"output_tokens":3}}`,
		fault: "event: error\n" +
			event(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
		refusal: `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`,
		usage:   true, cached: true, tellsFinish: true,
	}
}

// apis are all APIs that Spate supports.
var apis = []api{
	openAI("chat", event(`{"id":"x-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`),
		`"delta":{"content":%s}`, "chat.completion.chunk"),
	openAI("completions", "", `"text":%s`, "text_completion"),
	responsesAPI(), sglangAPI(), tgiAPI(), tritonAPI(), anthropicAPI(),
}
