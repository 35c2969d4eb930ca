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
	chat        API = openAI{apis["chat"], true}
	completions API = openAI{apis["completions"], false}
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

// sglang is SGLang's /generate. Each frame carries the whole text so far.
type sglang struct{ *frames }

var sglangRoutes = map[string]API{"POST /generate": sglang{apis["sglang"]}}

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
