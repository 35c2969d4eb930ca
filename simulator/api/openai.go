package api

import (
	"encoding/json"
	"net/http"

	"github.com/spate-load/spate/simulator/config"
)

// openAI is OpenAI's chat completions or completions, in vLLM's form.
type openAI struct {
	*frames
	chat bool
}

// The two APIs.
var (
	chat        API = openAI{&chatFrames, true}
	completions API = openAI{&completionsFrames, false}
)

var openAIRoutes = map[string]API{"POST /v1/chat/completions": chat, "POST /v1/completions": completions}

type message struct {
	Content json.RawMessage `json:"content"`
}

// Parse takes the part of a request that is used. Everything else is accepted and ignored, as servers do with sampling
// parameters.
func (a openAI) Parse(_ *http.Request, body []byte, c *config.Config) (*Request, *Error) {
	r := read(a.frames, c, body)
	r.named(get[string](r, "model"))
	r.one("n")
	if a.chat {
		r.conversation(get[[]message](r, "messages"))
	} else {
		r.text(r.member("prompt"))
	}
	r.engineFields()
	r.includeUsage = get[bool](r, "stream_options.include_usage")
	r.continuousUsage = r.includeUsage && get[bool](r, "stream_options.continuous_usage_stats")
	r.asked()
	return r.done("max_completion_tokens", "max_tokens")
}

// engineFields takes whether to stream, and the fields that engines behind these and Anthropic's API have to make
// outputs of exact length.
func (r *reading) engineFields() {
	r.Stream = get[bool](r, "stream")
	r.minTokens, r.IgnoreEOS = get[int](r, "min_tokens"), get[bool](r, "ignore_eos")
}

var chatFrames, completionsFrames = openAIFrames(true), openAIFrames(false)

// openAIFrames returns the frames of chat or completions.
func openAIFrames(isChat bool) (f frames) {
	prefix, object := "cmpl-", "text_completion"
	token, reply, none := `"text":$text`, `"text":$text`, `"text":""` // of a choice: in a frame, a body, the last frame
	if isChat {
		prefix, object = "chatcmpl-", "chat.completion$?stream(.chunk$)"
		token, reply, none = chatDelta, chatReply, `"delta":{}`
		f.splits = true
		f.opening = parse(`$(){$head,"choices":[{"index":0,"delta":{"role":"assistant","content":""},
			"logprobs":null,"finish_reason":null}]` + runningUsage + `$close`)
	}
	const start, end = `$(){$head,"choices":[{"index":0,`, `$close`
	f.head = parse(`"id":"` + prefix + `$id","object":"` + object + `","created":$created,"model":$model`)
	f.token = parse(start + token + openAIFinish + `}]` + runningUsage + end)
	f.closing = []template{
		parse(`$?apart(` + start + none + openAIFinish + `}]` + end + `$)`),
		parse(`$?asked($(){$head,"choices":[]` + openAIUsage + `$close$)`),
		parse(openAIMark),
	}
	f.whole = parse(start + reply + openAIFinish + `}]` + openAIUsage + end)
	f.failure = parse(`$()$error$end`)
	f.broken = parse(`$(){"id":"chatcmpl-0","choices":[{"index":0,"delta":{"cont$end`)
	f.mark = parse(openAIMark)
	return f
}

const (
	openAIMark   = `$()[DONE]$end`
	openAIFinish = `,"logprobs":null,"finish_reason":
		$?ended("$?length(length$:$?calls(tool_calls$:stop$)$)"$:null$)`
	runningUsage = `$?running(` + openAIUsage + `$)`
	openAIUsage  = `,"usage":{"prompt_tokens":$prompt,"total_tokens":$total,"completion_tokens":$output
		$?reasons(,"completion_tokens_details":{"reasoning_tokens":$thinking}$)
		$?caching(,"prompt_tokens_details":{"cached_tokens":$cached}$)}`
	chatContent = `$?calls("tool_calls":[{$?stream("index":0,$)
		$?named("function":{"arguments":$:"id":"call_0","type":"function","function":{"name":$call,"arguments":$)$text}}]
		$:"content":$text$)`
	chatDelta = `"delta":{$?thinks($field$thought$?says(,$)$)$?says(` + chatContent + `$)}`
	chatReply = `"message":{"role":"assistant",$?thinks($field$thought,$)` + chatContent + `}`
)

// sglang is SGLang's /generate. Each frame carries the whole text so far.
type sglang struct{ *frames }

var sglangRoutes = map[string]API{"POST /generate": sglang{&sglangFrames}}

func (a sglang) Parse(_ *http.Request, body []byte, c *config.Config) (*Request, *Error) {
	r := read(a.frames, c, body)
	r.one("sampling_params.n")
	raw := r.member("text")
	if kindOf(raw) != '"' {
		raw = r.member("input_ids")
	}
	r.require(raw != nil, "the prompt is missing: give text, a string, or input_ids, an array of token ids")
	r.text(raw)
	r.Stream = get[bool](r, "stream")
	r.minTokens = get[int](r, "sampling_params.min_new_tokens")
	r.IgnoreEOS = get[bool](r, "sampling_params.ignore_eos")
	return r.done("sampling_params.max_new_tokens")
}

var sglangFrames = frames{
	token:   parse(sglangObject),
	closing: []template{parse(`$?apart(` + sglangObject + `$)`), parse(openAIMark)},
	whole:   parse(sglangObject),
	failure: parse(`$(){"error":{"message":$problem}}$end`),
	broken:  parse(`$(){"text":" water ri$end`),
	mark:    parse(openAIMark),
}

// sglangObject is the text so far and its meta_info. Tokens end at that of the end of the sequence, number 2.
const sglangObject = `$(){"text":$sofar,"output_ids":$idsofar,"meta_info":{"id":"$id","finish_reason":
	$?ended($?length({"type":"length","length":$limit}$:{"type":"stop","matched":2}$)$:null$)
	,"prompt_tokens":$prompt,"completion_tokens":$output,"cached_tokens":$cached}$close`
