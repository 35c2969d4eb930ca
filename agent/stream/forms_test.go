package stream

import (
	"fmt"
	"strconv"
	"strings"
)

// event is one server-sent event.
type event struct{ name, data string }

// failed reports whether the framing of a binary stream marks the event as an error.
func (e event) failed() bool { return strings.HasSuffix(e.name, "Exception") }

// form describes an API's streams as its servers are known to send them.
type form struct {
	config Config
	// binary: streams have AWS's binary encoding.
	binary bool
	// lead are the events before the first token.
	lead []event
	// token returns the event of a word. soFar are the words before it.
	token func(word string, soFar []string) event
	// empty returns the event of a token without text.
	empty func(soFar []string) event
	// reasoning and tool are tokens that are not part of the answer. Zero: the API has none.
	reasoning, tool event
	// tail returns the end of the stream: finish reason, and usage of len(soFar) tokens. mark is the end mark after it.
	tail func(soFar []string) []event
	mark event
	// running: each frame has a usage, with the prompt's tokens.
	running bool
	// ending is how many tokens the last frame has in addition to those of the text.
	ending uint64
	// unusual are other events that must change nothing.
	unusual []event
	// failure is an error within the stream, fault its message.
	failure event
	fault   string
	// whole is an answer in one piece with the words "one two".
	whole string
	// refusal is the body of an HTTP error.
	refusal string
	// finish is the finish reason. usage: there is one, of prompt and output; hasCached: it has the cached tokens.
	finish    string
	usage     bool
	cached    uint64
	hasCached bool
	// cannot is why the API cannot have a case of the suite, by the case's name.
	cannot map[string]string
}

// promptTokens is the prompt's tokens in all usages here.
const promptTokens = 11

func chatChunk(delta, finish string) event {
	return event{data: `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + finish + `}]}`}
}

func completionChunk(text, finish string) event {
	return event{data: `{"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"m","choices":[{"index":0,"text":` + text + `,"logprobs":null,"finish_reason":` + finish + `,"stop_reason":null}]}`}
}

func openAIUsage(soFar []string) event {
	return event{data: fmt.Sprintf(`{"id":"1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":11,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":4}}}`,
		promptTokens+len(soFar), len(soFar))}
}

var doneEvent = event{data: "[DONE]"}

func typed(name, members string) event {
	return event{name, `{"type":"` + name + `",` + members + `}`}
}

func responsesDelta(kind, text string) event {
	return typed(kind, `"sequence_number":4,"item_id":"msg_1","output_index":0,"content_index":0,"delta":`+text+
		`,"logprobs":[]`)
}

func sglangChunk(soFar []string, finish string) event {
	return event{data: fmt.Sprintf(`{"text":%q,"output_ids":[1,2],"meta_info":{"id":"a","finish_reason":%s,"prompt_tokens":11,"weight_version":"default","total_retractions":0,"completion_tokens":%d,"cached_tokens":4,"e2e_latency":0.1}}`,
		strings.Join(soFar, ""), finish, len(soFar))}
}

func tgiChunk(index int, text, special, whole, details string) event {
	return event{data: fmt.Sprintf(`{"index":%d,"token":{"id":7,"text":%s,"logprob":-0.5,"special":%s},"generated_text":%s,"details":%s}`, index, text, special, whole, details)}
}

func tritonChunk(text string) event {
	return event{data: `{"context_logits":0.0,"cum_log_probs":0.0,"generation_logits":0.0,"model_name":"ensemble","model_version":"1","output_log_probs":[0.0,0.0],"sequence_end":false,"sequence_id":0,"sequence_start":false,"text_output":` + text + `}`}
}

// geminiChunk returns a frame with a part. tokens is the usage so far.
func geminiChunk(part, finish string, tokens int) event {
	return event{data: fmt.Sprintf(`{"candidates":[{"content":{"parts":[%s],"role":"model"}%s,"index":0}],"usageMetadata":{"promptTokenCount":11,"candidatesTokenCount":%d,"totalTokenCount":%d,"cachedContentTokenCount":4},"modelVersion":"m","responseId":"r"}`,
		part, finish, tokens, promptTokens+tokens)}
}

// converse returns an event of Bedrock's.
func converse(name, members string) event { return event{name, `{` + members + `,"p":"abcdefgh"}`} }

// Reasons why an API cannot have a case.
const (
	noReasoning = "the API has no reasoning apart from text"
	noTools     = "the API has no tool calls"
	noRunning   = "the API tells usage at the end only"
	noUsage     = "the API tells no usage"
	noMark      = "the API has no end mark and no finish reason: the end of the response is the end"
)

var forms = map[string]form{
	"chat": {
		lead: []event{chatChunk(`{"role":"assistant","content":""}`, "null")},
		token: func(word string, _ []string) event {
			return chatChunk(`{"content":`+strconv.Quote(word)+
				`}`, "null")
		},
		empty:     func([]string) event { return chatChunk(`{"content":""}`, "null") },
		reasoning: chatChunk(`{"reasoning_content":"hm"}`, "null"),
		tool:      chatChunk(`{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}`, "null"),
		tail:      func(s []string) []event { return []event{chatChunk(`{}`, `"length"`), openAIUsage(s)} },
		mark:      doneEvent, failure: event{data: `{"error":{"message":"out of memory","type":"InternalServerError","param":null,"code":500}}`}, fault: "out of memory",
		whole:   `{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"one two"},"finish_reason":"length"}],"usage":{"prompt_tokens":11,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`,
		refusal: `{"error":{"message":"too long","type":"BadRequestError","param":null,"code":400}}`,
		finish:  "length", usage: true, cached: 4, hasCached: true,
		unusual: []event{{data: `{"id":"1","object":"chat.completion.chunk","choices":[],"prompt_filter_results":[]}`}},
		cannot:  map[string]string{},
	},
	"completions": {
		config: Config{Prompts: "text"},
		token:  func(word string, _ []string) event { return completionChunk(strconv.Quote(word), "null") },
		empty:  func([]string) event { return completionChunk(`""`, "null") },
		tail:   func(s []string) []event { return []event{completionChunk(`""`, `"length"`), openAIUsage(s)} },
		mark:   doneEvent, failure: event{data: `{"object":"error","message":"out of memory","type":"x","code":500}`},
		fault:   "out of memory",
		whole:   `{"id":"1","object":"text_completion","choices":[{"index":0,"text":"one two","finish_reason":"length"}],"usage":{"prompt_tokens":11,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`,
		refusal: `{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}`,
		finish:  "length", usage: true, cached: 4, hasCached: true,
		cannot: map[string]string{"lead": "the API has no role frame", "reasoning": noReasoning, "tool calls": noTools,
			"unusual events": "the API has one kind of event"},
	},
	"responses": {
		lead: []event{
			typed("response.created",
				`"sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","error":null,"incomplete_details":null,"output":[],"usage":null}`),
			typed("response.in_progress",
				`"sequence_number":1,"response":{"id":"resp_1","object":"response","status":"in_progress","error":null,"output":[],"usage":null}`),
			typed("response.output_item.added",
				`"sequence_number":2,"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"}`),
			typed("response.content_part.added",
				`"sequence_number":3,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}`),
		},
		token: func(word string, _ []string) event {
			return responsesDelta("response.output_text.delta", strconv.Quote(word))
		},
		empty:     func([]string) event { return responsesDelta("response.output_text.delta", `""`) },
		reasoning: responsesDelta("response.reasoning_text.delta", `"hm"`),
		tool: typed("response.function_call_arguments.delta",
			`"sequence_number":5,"item_id":"fc_1","output_index":1,"delta":"{\"a"`),
		tail: func(s []string) []event {
			all := strconv.Quote(strings.Join(s, ""))
			return []event{
				typed("response.output_text.done",
					`"sequence_number":6,"item_id":"msg_1","output_index":0,"content_index":0,"text":`+all),
				typed("response.output_item.done",
					`"sequence_number":7,"output_index":0,"item":{"id":"msg_1","type":"message","status":"completed","content":[{"type":"output_text","text":`+all+`}]}`),
			}
		},
		mark: typed("response.incomplete",
			`"sequence_number":8,"response":{"id":"resp_1","object":"response","status":"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","content":[{"type":"output_text","text":"x"}]}],"usage":{"input_tokens":11,"input_tokens_details":{"cached_tokens":4},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":13}}`),
		failure: typed("error", `"sequence_number":8,"error":{"code":"server_error","message":"out of memory","param":null}`), fault: "server_error: out of memory",
		whole:   `{"id":"resp_1","object":"response","status":"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"hm"}],"summary":[]},{"type":"message","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"one two"}]}],"usage":{"input_tokens":11,"input_tokens_details":{"cached_tokens":4},"output_tokens":2,"total_tokens":13}}`,
		refusal: `{"error":{"message":"too long","type":"invalid_request_error","param":"input","code":null}}`,
		finish:  "max_output_tokens", usage: true, cached: 4, hasCached: true,
		unusual: []event{
			typed("response.output_text.annotation.added", `"annotation":{}`),
			typed("response.queued", `"response":{"status":"queued"}`),
			typed("response.reasoning_text.done", `"text":"hm"`),
		},
		cannot: map[string]string{"running usage": noRunning,
			"finish without a mark": "the finish reason is in the end mark"},
	},
	"sglang": {
		config: Config{Prompts: "text"},
		token: func(word string, s []string) event {
			return sglangChunk(append(append([]string{}, s...), word), "null")
		},
		empty: func(s []string) event { return sglangChunk(s, "null") },
		tail:  func(s []string) []event { return []event{sglangChunk(s, `{"type":"length","length":2}`)} },
		mark:  doneEvent, failure: event{data: `{"error":{"message":"out of memory"}}`}, fault: "out of memory",
		whole:   `{"text":"one two","output_ids":[1,2],"meta_info":{"id":"a","finish_reason":{"type":"length","length":2},"prompt_tokens":11,"completion_tokens":2,"cached_tokens":4,"e2e_latency":0.1}}`,
		refusal: `{"error":{"message":"too long"}}`,
		finish:  "length", usage: true, cached: 4, hasCached: true, running: true,
		cannot: map[string]string{"lead": "each frame has text", "reasoning": noReasoning, "tool calls": noTools,
			"unusual events": "the API has one kind of event"},
	},
	"tgi": {
		token: func(word string, s []string) event {
			return tgiChunk(len(s)+1, strconv.Quote(word), "false", "null", "null")
		},
		empty: func(s []string) event { return tgiChunk(len(s)+1, `""`, "false", "null", "null") },
		tail: func(s []string) []event {
			return []event{tgiChunk(len(s)+1, `"</s>"`, "true", strconv.Quote(strings.Join(s, "")),
				fmt.Sprintf(`{"finish_reason":"length","generated_tokens":%d,"input_length":11,"seed":null}`,
					len(s)+1))}
		},
		failure: event{data: `{"error":"Request failed during generation: out of memory","error_type":"generation"}`},
		fault:   "generation: Request failed during generation: out of memory",
		whole:   `{"generated_text":"one two","details":{"finish_reason":"length","generated_tokens":3,"input_length":11,"seed":null,"prefill":[],"tokens":[]}}`,
		refusal: `{"error":"Input validation error: too long","error_type":"validation"}`,
		finish:  "length", usage: true, ending: 1,
		cannot: map[string]string{
			"lead": "each frame has a token", "reasoning": noReasoning, "tool calls": noTools,
			"running usage":         noRunning,
			"finish without a mark": "the last token is the mark", "unusual events": "the API has one kind of event",
		},
	},
	"triton": {
		config:  Config{Model: "ensemble"},
		token:   func(word string, _ []string) event { return tritonChunk(strconv.Quote(word)) },
		empty:   func([]string) event { return tritonChunk(`""`) },
		tail:    func([]string) []event { return []event{tritonChunk(`""`)} },
		failure: event{data: `{"error":"out of memory"}`}, fault: "out of memory",
		whole:   `{"model_name":"ensemble","model_version":"1","text_output":"one two"}`,
		refusal: `{"error":"too long"}`,
		cannot: map[string]string{
			"lead": "each frame has text", "reasoning": noReasoning, "tool calls": noTools, "running usage": noUsage,
			"missing mark and finish": noMark, "finish without a mark": noMark,
			"unusual events": "the API has one kind of event",
		},
	},
	"anthropic": {
		lead: []event{
			typed("message_start", `"message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":1}}`),
			typed("content_block_start", `"index":0,"content_block":{"type":"text","text":""}`),
			{"ping", `{"type":"ping"}`},
		},
		token: func(word string, _ []string) event {
			return typed("content_block_delta", `"index":0,"delta":{"type":"text_delta","text":`+
				strconv.Quote(word)+`}`)
		},
		empty: func([]string) event {
			return typed("content_block_delta", `"index":0,"delta":{"type":"text_delta","text":""}`)
		},
		reasoning: typed("content_block_delta", `"index":0,"delta":{"type":"thinking_delta","thinking":"hm"}`),
		tool:      typed("content_block_delta", `"index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a"}`),
		tail: func(s []string) []event {
			return []event{
				typed("content_block_stop", `"index":0`),
				typed("message_delta", fmt.Sprintf(`"delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"output_tokens":%d}`, len(s))),
			}
		},
		mark:    event{"message_stop", `{"type":"message_stop"}`},
		failure: event{"error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`},
		fault:   "overloaded_error: Overloaded",
		whole:   `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"text","text":"one two"}],"stop_reason":"max_tokens","usage":{"input_tokens":7,"cache_read_input_tokens":4,"output_tokens":2}}`,
		refusal: `{"type":"error","error":{"type":"invalid_request_error","message":"too long"}}`,
		finish:  "max_tokens", usage: true, cached: 4, hasCached: true,
		unusual: []event{
			{"ping", `{"type":"ping"}`},
			typed("content_block_delta", `"index":0,"delta":{"type":"signature_delta","signature":"EqQ"}`),
			typed("something_new", `"x":{"text":"y"}`),
		},
		cannot: map[string]string{"running usage": noRunning},
	},
	"gemini": {
		config: Config{Model: "m"},
		token: func(word string, s []string) event {
			return geminiChunk(`{"text":`+strconv.Quote(word)+`}`, "", len(s)+1)
		},
		empty:     func(s []string) event { return geminiChunk(`{"text":""}`, "", len(s)) },
		reasoning: event{data: `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}],"role":"model"},"index":0}]}`},
		tool:      event{data: `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":1}}}],"role":"model"},"index":0}]}`},
		tail: func(s []string) []event {
			return []event{geminiChunk(`{"text":""}`, `,"finishReason":"MAX_TOKENS"`, len(s))}
		},
		failure: event{data: `{"error":{"code":503,"message":"out of memory","status":"UNAVAILABLE"}}`},
		fault:   "UNAVAILABLE: out of memory",
		whole:   geminiChunk(`{"text":"one two"}`, `,"finishReason":"MAX_TOKENS"`, 2).data,
		refusal: `{"error":{"code":400,"message":"too long","status":"INVALID_ARGUMENT"}}`,
		finish:  "MAX_TOKENS", usage: true, cached: 4, hasCached: true, running: true,
		cannot: map[string]string{"lead": "each frame has content", "unusual events": "the API has one kind of event"},
	},
	"bedrock": {
		config: Config{Model: "m"}, binary: true,
		lead: []event{converse("messageStart", `"role":"assistant"`)},
		token: func(word string, _ []string) event {
			return converse("contentBlockDelta", `"contentBlockIndex":0,"delta":{"text":`+strconv.Quote(word)+`}`)
		},
		empty: func([]string) event {
			return converse("contentBlockDelta", `"contentBlockIndex":0,"delta":{"text":""}`)
		},
		reasoning: converse("contentBlockDelta", `"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"hm"}}`),
		tool:      converse("contentBlockDelta", `"contentBlockIndex":1,"delta":{"toolUse":{"input":"{\"a"}}`),
		tail: func([]string) []event {
			return []event{converse("contentBlockStop", `"contentBlockIndex":0`),
				converse("messageStop", `"stopReason":"max_tokens"`)}
		},
		mark:    converse("metadata", `"metrics":{"latencyMs":9},"usage":{"inputTokens":7,"cacheReadInputTokens":4,"cacheWriteInputTokens":0,"outputTokens":2,"totalTokens":13}`),
		failure: event{"modelStreamErrorException", `{"message":"out of memory","originalStatusCode":424}`},
		fault:   "modelStreamErrorException: out of memory",
		whole:   `{"output":{"message":{"role":"assistant","content":[{"text":"one two"}]}},"stopReason":"max_tokens","usage":{"inputTokens":7,"cacheReadInputTokens":4,"outputTokens":2,"totalTokens":13}}`,
		refusal: `{"message":"too long"}`,
		finish:  "max_tokens", usage: true, cached: 4, hasCached: true,
		unusual: []event{
			converse("contentBlockDelta", `"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"EqQ"}}`),
			converse("somethingNew", `"delta":{"text":"x"}`),
		},
		cannot: map[string]string{"running usage": noRunning,
			"finish without a mark": "the usage is in the end mark"},
	},
}
