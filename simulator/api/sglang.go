package api

import (
	"encoding/json"
	"net/http"

	"github.com/spate-load/spate/simulator/config"
)

// sglang is SGLang's /generate. Each frame carries the whole text so far.
type sglang struct{ *frames }

var sglangRoutes = map[string]API{"POST /generate": sglang{&sglangFrames}}

type sglangBody struct {
	Text     json.RawMessage `json:"text"`
	InputIDs json.RawMessage `json:"input_ids"`
	Sampling struct {
		MaxNewTokens *int `json:"max_new_tokens"`
		MinNewTokens int  `json:"min_new_tokens"`
		IgnoreEOS    bool `json:"ignore_eos"`
		N            *int `json:"n"`
	} `json:"sampling_params"`
	Stream bool `json:"stream"`
}

func (a sglang) Parse(_ *http.Request, body []byte, c *config.Config) (*Request, *Error) {
	var w sglangBody
	r := read(a, c, body, &w)
	r.require(w.Sampling.N == nil || *w.Sampling.N == 1, "sampling_params.n: only 1 is simulated")
	raw := w.InputIDs
	if kindOf(w.Text) == '"' {
		raw = w.Text
	}
	r.require(kindOf(raw) != 0, "the prompt is missing: give text, a string, or input_ids, an array of token ids")
	r.text(raw)
	r.minTokens, r.IgnoreEOS, r.Stream = w.Sampling.MinNewTokens, w.Sampling.IgnoreEOS, w.Stream
	return r.done("max_new_tokens", w.Sampling.MaxNewTokens)
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
