// Package openai has OpenAI's APIs: chat, completions and responses.
package openai

import (
	"github.com/tidwall/gjson"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/workload"
)

// usageInStream asks for a stream with a last frame that has the usage.
var usageInStream = map[string]any{"stream": true, api.StreamOptions: map[string]any{"include_usage": true}}

// Chat is POST /v1/chat/completions.
var Chat = api.API{
	Name: "chat", Path: "/v1/chat/completions", Model: "model",
	Prompts: []api.Prompt{{Form: workload.Messages, Field: "messages"}}, Defaults: usageInStream,
	MaxFields: []string{"max_tokens", "max_completion_tokens"}, IgnoreEOS: "ignore_eos",
	MinFields: []string{"min_tokens"}, ExactServers: engines, Trials: true, Parse: parse, Tools: tools, Forms: forms,
	Demand: demand,
}

// Completions is POST /v1/completions.
var Completions = api.API{
	Name: "completions", Operation: "text_completion", Path: "/v1/completions", Model: "model",
	Prompts:   []api.Prompt{{Form: workload.TokenIDs, Field: "prompt"}, {Form: workload.Text, Field: "prompt"}},
	Defaults:  usageInStream,
	MaxFields: []string{"max_tokens", "max_completion_tokens"}, IgnoreEOS: "ignore_eos",
	MinFields: []string{"min_tokens"}, ExactServers: engines, Trials: true, Parse: parse, Forms: forms,
	Demand: demand,
}

// engines are the serving engines that accept ignore_eos and min_tokens in chat and completions.
var engines = []string{"vllm", "sglang", "tensorrt_llm"}

// tools are the tools of the chat API.
var tools = &api.Tools{Names: "tools.#.function.name", Calls: func(value []byte, add func(api.CallPiece)) {
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
		list = append(list, map[string]any{"type": "function", "function": members(&t)})
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

// members returns the members of a tool's definition.
func members(t *api.Tool) map[string]any {
	all := t.As("name", "description", "parameters")
	if t.Strict {
		all["strict"] = true
	}
	return all
}

// forms are OpenAI's fields for the form of an answer, and those of vLLM, today's and earlier ones.
var forms = []api.Form{
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
var responsesTools = &api.Tools{Names: "tools.#.name", Calls: func(value []byte, add func(api.CallPiece)) {
	all := gjson.ParseBytes(value)
	if !all.IsArray() {
		add(api.CallPiece{
			Index: api.IndexOf(all.Get("output_index")), Name: all.Get("item.name").String(),
			Arguments: all.Get("delta").String(),
		})
	}
	all.Get(`#(type=="function_call")#`).ForEach(func(_, item gjson.Result) bool {
		add(api.CallPiece{Index: -1, Name: item.Get("name").String(), Arguments: item.Get("arguments").String()})
		return true
	})
}, Define: func(all []api.Tool, choice string) map[string]any {
	fields := tools.Define(nil, choice)
	var list []any
	for _, t := range all {
		tool := members(&t)
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

// demand demands an answer of chat and completions.
func demand(schema any) map[string]any {
	return map[string]any{"response_format": map[string]any{
		"type": "json_schema", "json_schema": map[string]any{"name": answerName, "schema": schema},
	}}
}

// responsesDemand demands an answer of the responses API.
func responsesDemand(schema any) map[string]any {
	return map[string]any{"text": map[string]any{"format": map[string]any{
		"type": "json_schema", "name": answerName, "schema": schema,
	}}}
}
