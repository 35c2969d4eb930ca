package openai

import (
	"github.com/tidwall/gjson"

	"github.com/spate-load/spate/api"
)

// tools are the tools of the chat API.
var tools = &api.Tools{Names: "tools.#.function.name", Calls: func(value []byte, add func(api.CallPiece)) {
	gjson.ParseBytes(value).ForEach(func(_, call gjson.Result) bool {
		add(api.CallPiece{
			Index: api.IndexOf(call.Get("index")), Name: call.Get("function.name").String(),
			Arguments: api.ArgumentsText(call.Get("function.arguments")),
		})
		return true
	})
}}

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
}}

// responsesForms are the fields of the responses API for the form of an answer.
var responsesForms = []api.Form{
	{Kind: api.FormSchema, Path: "text.format.schema"}, {Kind: api.FormJSON, Path: "text.format.type"},
}
