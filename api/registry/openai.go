package registry

import (
	"bytes"
	"encoding/json"

	"github.com/tidwall/gjson"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/jsonscan"
	"github.com/spate-load/spate/workload"
)

// usageInStream asks for a stream with a last frame that has the usage.
var usageInStream = map[string]any{"stream": true, api.StreamOptions: map[string]any{"include_usage": true}}

// Chat is POST /v1/chat/completions.
var Chat = api.API{
	Name: "chat", Version: "/v1", Path: "/chat/completions", Model: "model",
	Prompts: []api.Prompt{{Form: workload.Messages, Field: "messages"}}, Defaults: usageInStream,
	MaxFields: []string{"max_tokens", "max_completion_tokens"}, IgnoreEOS: "ignore_eos",
	MinFields: []string{"min_tokens"}, ExactServers: openaiEngines, Trials: true, Parse: parseOpenAI, Tools: openaiTools, Forms: openaiForms,
	Demand: openaiDemand,
}

// Completions is POST /v1/completions.
var Completions = api.API{
	Name: "completions", Operation: "text_completion", Version: "/v1", Path: "/completions", Model: "model",
	Prompts:   []api.Prompt{{Form: workload.TokenIDs, Field: "prompt"}, {Form: workload.Text, Field: "prompt"}},
	Defaults:  usageInStream,
	MaxFields: []string{"max_tokens", "max_completion_tokens"}, IgnoreEOS: "ignore_eos",
	MinFields: []string{"min_tokens"}, ExactServers: openaiEngines, Trials: true, Parse: parseOpenAI, Forms: openaiForms,
	Demand: openaiDemand,
}

// openaiEngines are the serving engines that accept ignore_eos and min_tokens in chat and completions.
var openaiEngines = []string{"vllm", "sglang", "tensorrt_llm"}

// openaiTools are the tools of the chat API.
var openaiTools = &api.Tools{Names: "tools.#.function.name", Calls: func(value []byte, add func(api.CallPiece)) {
	gjson.ParseBytes(value).ForEach(func(_, call gjson.Result) bool {
		add(api.CallPiece{
			Index: api.IndexOf(call.Get("index")), Name: call.Get("function.name").String(),
			Arguments: api.ArgumentsText(call.Get("function.arguments")),
		})
		return true
	})
}, Define: func(all []api.Tool, choice string) map[string]any {
	fields := make(map[string]any)
	var list []any
	for _, t := range all {
		list = append(list, map[string]any{"type": "function", "function": openaiMembers(&t)})
	}
	fields["tools"] = list
	switch choice {
	case "":
	case api.ChoiceAuto, api.ChoiceNone, api.ChoiceRequired:
		fields["tool_choice"] = choice
	default:
		fields["tool_choice"] = map[string]any{"type": "function", "function": map[string]any{"name": choice}}
	}
	return fields
}}

// openaiMembers returns the members of a tool's definition.
func openaiMembers(t *api.Tool) map[string]any {
	all := t.As("name", "description", "parameters")
	if t.Strict {
		all["strict"] = true
	}
	return all
}

// openaiForms are OpenAI's fields for the form of an answer, and those of vLLM, today's and earlier ones.
var openaiForms = []api.Form{
	{Kind: api.FormSchema, Path: "response_format.json_schema.schema"},
	{Kind: api.FormSchema, Path: "structured_outputs.json"},
	{Kind: api.FormSchema, Path: "guided_json"},
	{Kind: api.FormRegex, Path: "structured_outputs.regex"},
	{Kind: api.FormRegex, Path: "guided_regex"},
	{Kind: api.FormChoice, Path: "structured_outputs.choice"},
	{Kind: api.FormChoice, Path: "guided_choice"},
	{Kind: api.FormJSON, Path: "response_format.type"},
	{Kind: api.FormJSON, Path: "structured_outputs.json_object"},
}

// responsesTools are the tools of the responses API. Streams have a call's name and its arguments in events of their
// own, and answers in one piece have a list of items.
var responsesTools = &api.Tools{Names: "tools.#.name", Calls: callPaths{
	index: "output_index", name: "item.name", arguments: "delta",
	all: `#(type=="function_call")#`, allName: "name", allArguments: "arguments",
}.read, Define: func(all []api.Tool, choice string) map[string]any {
	fields := openaiTools.Define(nil, choice)
	var list []any
	for _, t := range all {
		tool := openaiMembers(&t)
		tool["type"] = "function"
		list = append(list, tool)
	}
	fields["tools"] = list
	if _, named := fields["tool_choice"].(map[string]any); named {
		fields["tool_choice"] = map[string]any{"type": "function", "name": choice}
	}
	return fields
}}

// responsesForms are the fields of the responses API for the form of an answer.
var responsesForms = []api.Form{
	{Kind: api.FormSchema, Path: "text.format.schema"}, {Kind: api.FormJSON, Path: "text.format.type"},
}

// answerName is the name that schemas of answers have. OpenAI wants one.
const answerName = "answer"

// openaiDemand demands an answer of chat and completions.
func openaiDemand(schema any) map[string]any {
	return map[string]any{"response_format": map[string]any{
		"type": "json_schema", "json_schema": map[string]any{"name": answerName, "schema": schema},
	}}
}

// Responses is POST /v1/responses. Each event has its kind in "type". The last one repeats the whole answer.
var Responses = api.API{
	Name: "responses", Version: "/v1", Path: "/responses", Model: "model",
	Prompts:   []api.Prompt{{Form: workload.Messages, Field: "input"}},
	Defaults:  map[string]any{"stream": true, "store": false},
	MaxFields: []string{"max_output_tokens"}, IgnoreEOS: "ignore_eos", ExactServers: []string{"vllm"}, Trials: true,
	Parse: parseResponses, Tools: responsesTools, Forms: responsesForms,
	Demand: func(schema any) map[string]any {
		return map[string]any{"text": map[string]any{"format": map[string]any{
			"type": "json_schema", "name": answerName, "schema": schema,
		}}}
	},
}

// Members of an event, of a response, of its usage and of an output item.
var (
	responsesEvent    = []string{"type", "delta", "response", "item", "error", "object"}
	responsesAnswer   = []string{"status", "incomplete_details", "usage", "error", "output", "model"}
	responsesUsage    = []string{"input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details"}
	cachedTokens      = []string{"cached_tokens"}
	reasoningTokens   = []string{"reasoning_tokens"}
	responsesReason   = []string{"reason"}
	responsesToolName = []string{"type", "name"}
)

func parseResponses(e api.Event, f *api.Frame) error {
	*f = api.Frame{}
	var v [6][]byte
	if err := jsonscan.Members(e.Data, responsesEvent, v[:]); err != nil {
		return err
	}
	kind, delta, response, item, fault := jsonscan.StringBytes(v[0]), v[1], v[2], v[3], v[4]
	switch string(kind) {
	case "response.output_text.delta":
		f.Chunk, f.Answer = true, jsonscan.Unquoted(delta)
		f.AddOutput(delta, false)
	case "response.output_item.added":
		var v [2][]byte
		jsonscan.NestedMembers(item, responsesToolName, v[:])
		f.AddOutput(v[1], false)
		if string(jsonscan.StringBytes(v[0])) == "function_call" {
			f.Calls = e.Data
		}
	case "response.function_call_arguments.delta":
		f.AddOutput(delta, false)
		f.Calls = e.Data
	case "response.completed", "response.incomplete", "response.failed":
		f.End = true
		f.EndPart()
		setResponse(f, response, string(kind) == "response.failed")
	case "error":
		if !jsonscan.Filled(fault) {
			fault = e.Data
		}
		f.Fail(nil, fault)
	default:
		otherEvent(f, kind, e.Data, delta, fault, string(jsonscan.StringBytes(v[5])) == "response")
	}
	return nil
}

// otherEvent handles an event of another type, or a whole answer. Deltas of text, reasoning, refusals and arguments are
// all output. vLLM's benchmark client timestamps only those of text and of reasoning.
func otherEvent(f *api.Frame, kind, data, delta, fault []byte, whole bool) {
	switch {
	case whole:
		setResponse(f, data, false)
		f.Chunk = true
		var v [6][]byte
		jsonscan.NestedMembers(data, responsesAnswer, v[:])
		addOutputs(f, v[4])
		f.Calls = v[4]
	case jsonscan.Filled(fault):
		f.Fail(nil, fault)
	case bytes.HasSuffix(kind, []byte(".delta")):
		f.Chunk = string(kind) == "response.reasoning_text.delta"
		f.AddOutput(delta, bytes.Contains(kind, []byte("reasoning")))
	case bytes.HasSuffix(kind, []byte(".done")):
		f.EndPart()
	}
}

// setResponse handles a response that has ended: its finish reason and usage, or its error. The finish reason of an
// incomplete response is the reason why it is incomplete.
func setResponse(f *api.Frame, data []byte, failed bool) {
	var v [6][]byte
	jsonscan.NestedMembers(data, responsesAnswer, v[:])
	f.Model = v[5]
	status, details, usage, fault := jsonscan.StringBytes(v[0]), v[1], v[2], v[3]
	if failed {
		status = []byte("failed")
	}
	switch {
	case api.EndingOf(string(status)) == api.EndingAborted:
		f.Abort(status, fault)
		return
	case jsonscan.Filled(fault):
		f.Fail(nil, fault)
		return
	}
	f.Finish = status
	var reason [1][]byte
	jsonscan.NestedMembers(details, responsesReason, reason[:])
	if why := jsonscan.StringBytes(reason[0]); len(why) > 0 {
		f.Finish = why
	}
	var u [4][]byte
	jsonscan.NestedMembers(usage, responsesUsage, u[:])
	var cached, thought [1][]byte
	jsonscan.NestedMembers(u[2], cachedTokens, cached[:])
	jsonscan.NestedMembers(u[3], reasoningTokens, thought[:])
	f.SetUsage(u[0], cached[0], u[1])
	f.ReasoningTokens, f.HasReasoningTokens = jsonscan.Count(thought[0])
}

// addOutputs records the output of a whole answer: messages, reasoning and tool calls. Its first text counts as the
// answer.
func addOutputs(f *api.Frame, data []byte) {
	for _, item := range jsonscan.List(data) {
		item := jsonscan.Object(item)
		f.AddOutput(item["arguments"], false)
		for _, part := range jsonscan.List(item["content"]) {
			part := jsonscan.Object(part)
			f.AddOutput(part["text"], jsonscan.Text(item["type"]) == "reasoning")
			f.AddOutput(part["refusal"], false)
			if len(f.Answer) == 0 && jsonscan.Text(part["type"]) == "output_text" {
				f.Answer = jsonscan.Unquoted(part["text"])
			}
		}
	}
}

// SGLang is POST /generate. Each frame holds the whole text so far and its token ids. A server started with
// --stream-output, later called --incremental-streaming-output, sends only the new ids. Its text is then only the new
// text in later versions, and the whole text so far in earlier ones. The number of output tokens always counts all so
// far.
var SGLang = api.API{
	Name: "sglang", Path: "/generate",
	Prompts:      []api.Prompt{{Form: workload.TokenIDs, Field: "input_ids"}, {Form: workload.Text, Field: "text"}},
	OtherPrompts: []string{"input_embeds"}, Defaults: map[string]any{"stream": true}, Options: "sampling_params",
	MaxFields: []string{"max_new_tokens"}, IgnoreEOS: "ignore_eos", MinFields: []string{"min_new_tokens"},
	AlwaysExact: true, Parse: parseSGLang, Forms: []api.Form{
		{Kind: api.FormSchema, Path: "sampling_params.json_schema"}, {Kind: api.FormRegex, Path: "sampling_params.regex"},
	}, Demand: func(schema any) map[string]any {
		text, err := json.Marshal(schema)
		if err != nil {
			panic(err) // it came from JSON
		}
		return map[string]any{"sampling_params": map[string]any{"json_schema": string(text)}}
	},
}

// Members of a frame, of its meta_info, and of its finish reason.
var (
	sglangFrame  = []string{"text", "output_ids", "meta_info", "error"}
	sglangMeta   = []string{"prompt_tokens", "cached_tokens", "completion_tokens", "finish_reason"}
	sglangFinish = []string{"type", "message"}
)

func parseSGLang(e api.Event, f *api.Frame) error {
	*f = api.Frame{}
	var v [4][]byte
	if err := jsonscan.Members(e.Data, sglangFrame, v[:]); err != nil {
		return err
	}
	answer, ids, meta, fault := v[0], v[1], v[2], v[3]
	if jsonscan.Filled(fault) {
		f.Fail(nil, fault)
		return nil
	}
	f.Chunk = true
	f.Answer, f.Span = jsonscan.Unquoted(answer), api.SpanSoFar
	if len(answer) == 0 { // the server has no tokenizer
		f.Token, f.Span = jsonscan.Filled(ids), api.SpanPiece
	}
	var m [4][]byte
	jsonscan.NestedMembers(meta, sglangMeta, m[:])
	f.SetUsage(m[0], m[1], m[2])
	setSGLangFinish(f, m[3])
	if f.Span == api.SpanSoFar && hasNewSGLangIDs(f, ids) {
		f.Span = api.SpanUnsure
	}
	return nil
}

// hasNewSGLangIDs reports whether a frame has only the ids of new tokens, so that its text may be only the new text. It
// is false for the frame with which the model ends an answer: the end token has no text, so a text equal to the
// previous one is the whole answer.
func hasNewSGLangIDs(f *api.Frame, ids []byte) bool {
	return jsonscan.Filled(ids) && f.HasOutput && string(f.Finish) != "stop" &&
		uint64(bytes.Count(ids, []byte{','})+1) < f.Output
}

// setSGLangFinish records SGLang's finish reason: an object with a type, or a string.
func setSGLangFinish(f *api.Frame, reason []byte) {
	f.Finish = jsonscan.StringBytes(reason)
	var v [2][]byte
	jsonscan.NestedMembers(reason, sglangFinish, v[:])
	switch kind := jsonscan.StringBytes(v[0]); {
	case string(kind) == "abort":
		f.Abort(kind, v[1])
	case len(kind) > 0:
		f.Finish = kind
	}
}
