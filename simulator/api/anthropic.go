package api

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/spate-load/spate/simulator/config"
)

// anthropic is Anthropic's messages API.
type anthropic struct{ *frames }

var anthropicRoutes = map[string]API{"POST /v1/messages": anthropic{&anthropicFrames}}

func (a anthropic) Parse(_ *http.Request, body []byte, c *config.Config) (*Request, *Error) {
	r := read(a.frames, c, body)
	r.named(get[string](r, "model"))
	r.require(r.member("max_tokens") != nil, "max_tokens is missing: this API requires it")
	r.content("system")
	r.conversation(get[[]message](r, "messages"))
	r.engineFields()
	r.asked()
	return r.done("max_tokens")
}

// anthropicError returns an error with the API's type, which streams use too.
func anthropicError(e *Error) *Error {
	kinds := map[int]string{
		http.StatusBadRequest:            "invalid_request_error",
		http.StatusUnauthorized:          "authentication_error",
		http.StatusNotFound:              "not_found_error",
		http.StatusRequestEntityTooLarge: "request_too_large",
		http.StatusTooManyRequests:       "rate_limit_error",
	}
	return &Error{Message: e.Message, Type: cmp.Or(kinds[e.status], "api_error")}
}

// Reasoning is a thinking block before the text block. message_stop is the mark.
var anthropicFrames = frames{
	splits: true,
	head:   parse(`"id":"msg_$id","type":"message","role":"assistant","model":$model`),
	opening: parse(`$(message_start){"type":"message_start","message":{$head,"content":[],"stop_reason":null,
		"stop_sequence":null,"usage":{` + anthropicInput + `,"output_tokens":1}}$close
		$?atonce($start$(ping){"type":"ping"$close$)`),
	start: parse(`$(content_block_start){"type":"content_block_start","index":$block,"content_block":{
		$?reasoning("type":"thinking","thinking":"","signature":""$)
		$?calling("type":"tool_use","id":"toolu_0","input":{},"name":$call$)
		$?message("type":"text","text":""$)}$close`),
	token: parse(`$(content_block_delta){"type":"content_block_delta","index":$block,"delta":{
		$?reasoning("type":"thinking_delta","thinking":$)
		$?calling("type":"input_json_delta","partial_json":$)
		$?message("type":"text_delta","text":$)$text}$close`),
	stop: parse(`$(content_block_stop){"type":"content_block_stop","index":$block$close`),
	closing: []template{
		parse(`$stop`),
		parse(`$(message_delta){"type":"message_delta","delta":{` + anthropicStop + `}` + anthropicUsage + `$close`),
		parse(`$(message_stop){"type":"message_stop"$close`),
	},
	whole: parse(`{$head,"content":[$?thinks({"type":"thinking","signature":"","thinking":$thought},$)
		$?calls({"type":"tool_use","id":"toolu_0","name":$call,"input":$input
		$:{"type":"text","text":$text$)}],` + anthropicStop + anthropicUsage + `$close`),
	translate: anthropicError,
	failure:   parse(`$(error){"type":"error","error":{"type":"$kind","message":$problem}}$end`),
	broken:    parse(`$(content_block_delta){"type":"content_block_delta","index":0,"delta":{"type":"text_d$end`),
}

// input_tokens excludes the tokens from the prefix cache.
const (
	anthropicInput = `"cache_creation_input_tokens":0,"cache_read_input_tokens":$cached,"input_tokens":$uncached`
	anthropicUsage = `,"usage":{` + anthropicInput + `,"output_tokens":$output}`
	anthropicStop  = `"stop_reason":"$?length(max_tokens$:$?calls(tool_use$:end_turn$)$)",
		"stop_sequence":null`
)

// input appends the input of a whole tool call, which is an object: empty if it was cut.
func (p *FrameWriter) input(b []byte) []byte {
	var input string
	_ = json.Unmarshal(p.text(nil, p.split, p.until), &input) // it is a string
	if !json.Valid([]byte(input)) {
		input = "{}"
	}
	return append(b, input...)
}
