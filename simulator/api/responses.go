package api

import (
	"encoding/json"
	"net/http"

	"github.com/spate-load/spate/simulator/config"
)

// responses is OpenAI's responses API.
type responses struct{ *frames }

var responsesRoutes = map[string]API{"POST /v1/responses": responses{&responsesFrames}}

func (a responses) Parse(_ *http.Request, body []byte, c *config.Config) (*Request, *Error) {
	r := read(a.frames, c, body)
	r.named(get[string](r, "model"))
	r.content("instructions")
	input := r.member("input")
	items := []message{{input}}
	if kindOf(input) != '"' {
		items = nil
		isArray := kindOf(input) == '[' && json.Unmarshal(input, &items) == nil
		r.require(isArray, "input is missing, or neither a string nor an array of messages")
	}
	r.conversation(items)
	r.engineFields()
	r.asked()
	return r.done("max_output_tokens")
}

// The blocks are output items: the reasoning, and the message or the function call. The last event is the mark. With
// finishFrame, an output that reaches its limit ends with response.incomplete, as at OpenAI; else with
// response.completed, as in vLLM.
var responsesFrames = frames{
	splits: true,
	head:   parse(`{"id":"resp_$id","object":"response","created_at":$created,"error":null,"model":$model`),
	opening: parse(responsesEvent("response.created", responseBegun) +
		responsesEvent("response.in_progress", responseBegun)),
	start: parse(responsesEvent("response.output_item.added", `,"output_index":$block,"item":`+
		responsesItem("in_progress", `""`, "")) +
		`$!calling(` + partEvent("response.content_part.added", `"part":`+responsesPart(`""`)) + `$)`),
	token: parse(`$?reasoning(` + partEvent("response.reasoning_text.delta", `"delta":$text`) + `$)
		$?calling(` + partEvent("response.function_call_arguments.delta", `"delta":$text`) + `$)
		$?message(` + partEvent("response.output_text.delta", `"delta":$text`) + `$)`),
	stop: parse(`$?reasoning(` + partEvent("response.reasoning_text.done", `"text":$text`) + `$)
		$?calling(` + partEvent("response.function_call_arguments.done", `"name":$call,"arguments":$text`) + `$)
		$?message(` + partEvent("response.output_text.done", `"text":$text`) + `$)
		$!calling(` + partEvent("response.content_part.done", `"part":`+responsesPart(`$text`)) + `$)` +
		responsesEvent("response.output_item.done", `,"output_index":$block,"item":`+completedItem)),
	item: parse(completedItem),
	closing: []template{
		parse(`$stop`),
		parse(`$?incomplete(` + responsesEvent("response.incomplete", `,"response":`+response+`}`) + `
			$:` + responsesEvent("response.completed", `,"response":`+response+`}`) + `$)`),
	},
	whole:   parse(response + `$close`),
	failure: parse(`$?stream(` + responsesEvent("error", `,"code":$code,"message":$problem,"param":null`) + `$:$error$)`),
	broken: parse(`$(response.output_text.delta)
		{"type":"response.output_text.delta","sequence_number":5,"del$end`),
}

const (
	responseBegun = `,"response":$head,"status":"in_progress","incomplete_details":null,"output":[],"usage":null}`
	// response is the final response object, without its closing brace.
	response = `$head,$?length("status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}
		$:"status":"completed","incomplete_details":null$),"output":[$items],"usage":
		{"input_tokens":$prompt,"input_tokens_details":{"cached_tokens":$cached},"output_tokens":$output,
		"output_tokens_details":{"reasoning_tokens":$reported},"total_tokens":$total}`
	itemID = `"$?reasoning(rs_$)$?calling(fc_$)$?message(msg_$)$id"`
)

var completedItem = responsesItem("completed", "$text", responsesPart("$text"))

// responsesEvent returns an event with fields of its own.
func responsesEvent(name, fields string) string {
	return `$(` + name + `){"type":"` + name + `","sequence_number":$serial` + fields + `$close`
}

// partEvent returns an event of the open output item. The arguments of a call are no part of a content.
func partEvent(name, field string) string {
	return responsesEvent(name, `,"item_id":`+itemID+`,"output_index":$block$!calling(,"content_index":0$),`+field)
}

// responsesItem returns an output item.
func responsesItem(status, arguments, part string) string {
	return `{"id":` + itemID + `,$?calling("type":"function_call","call_id":"call_0","name":$call,"status":"` + status +
		`","arguments":` + arguments + `$)$?reasoning("type":"reasoning","summary":[]$)
		$?message("type":"message","role":"assistant"$)$!calling(,"status":"` + status + `","content":[` + part + `]$)}`
}

func responsesPart(text string) string {
	return `{$?reasoning("type":"reasoning_text"
		$:"type":"output_text","annotations":[],"logprobs":[]$),"text":` + text + `}`
}
