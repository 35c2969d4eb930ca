package api

import (
	"net/http"

	"github.com/spate-load/spate/simulator/config"
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
