package api

import (
	"encoding/json"
	"net/http"

	"github.com/spate-load/spate/simulator/config"
)

// tgi is the API of Hugging Face's Text Generation Inference: /generate_stream, and /generate without a stream. Each
// frame has one token. Several tokens at once are several frames in one write.
type tgi struct{ stream bool }

var tgiRoutes = map[string]API{"POST /generate_stream": tgi{stream: true}}

type tgiBody struct {
	Inputs     json.RawMessage `json:"inputs"`
	Parameters struct {
		MaxNewTokens *int `json:"max_new_tokens"`
		Details      bool `json:"details"`
		// Engines behind TGI's API take this field to make outputs of exact length. TGI does not have it.
		IgnoreEOS bool `json:"ignore_eos_token"`
	} `json:"parameters"`
}

func (a tgi) Parse(_ *http.Request, body []byte, c *config.Config) (*Request, *Error) {
	var w tgiBody
	r := read(a, c, body, &w)
	r.require(kindOf(w.Inputs) == '"', "inputs is missing or not a string")
	r.text(w.Inputs)
	r.Stream, r.IgnoreEOS, r.details = a.stream, w.Parameters.IgnoreEOS, w.Parameters.Details
	return r.done("max_new_tokens", w.Parameters.MaxNewTokens)
}

// Problem answers validation errors with 422, as TGI does.
func (tgi) Problem(e *Error, _ *http.Request, _ http.Header) (int, []byte) {
	status, kind := e.status, "validation"
	switch {
	case status == http.StatusBadRequest:
		status = http.StatusUnprocessableEntity
	case status == http.StatusTooManyRequests:
		kind = "overloaded"
	case status >= 500:
		kind = "incomplete_generation"
	}
	return status, (&FrameWriter{problem: &Error{Message: e.Message, Type: kind}}).put(nil, tgiFrames.failure)
}

func (tgi) Encoder(q *Request, c *config.Config, id string, created int64) Encoder {
	p := newFrameWriter(&tgiFrames, q, c, id, created)
	p.field = "data:"
	return tgiEncoder{p}
}

// tgiEncoder has a frame for each token.
type tgiEncoder struct{ *FrameWriter }

// Tokens implements Encoder.
func (e tgiEncoder) Tokens(b []byte, from, until int, finish string) []byte {
	for i := max(from, e.script.Hidden); i < until; i++ {
		reason := finish
		if i+1 < until {
			reason = ""
		}
		e.at(i, i+1, reason)
		b = e.put(b, e.frames.token)
	}
	return b
}

// The end-of-sequence token has its own text, which is not in generated_text.
var tgiFrames = frames{
	token: parse(`$(){"index":$output,"token":{"id":$token,"text":$?eos("</s>","logprob":-0.125,"special":true
		$:$text,"logprob":-0.125,"special":false$)},"generated_text":
		$?ended($sofar,"details":` + tgiDetails + `$:null,"details":null$)$close`),
	whole: parse(`{"generated_text":$sofar$?details(,"details":` + tgiDetails + `$)$close`),
	translate: func(e *Error) *Error {
		return &Error{Message: "Request failed during generation: " + e.Message, Type: "generation"}
	},
	failure: parse(`$(){"error":$problem,"error_type":"$kind"}$end`),
	broken:  parse(`$(){"index":2,"token":{"id":1001,"te$end`),
}

// tgiDetails is the final details object, or null if usage is left out.
const tgiDetails = `$?usage({"finish_reason":"$?length(length$:eos_token$)",
	"generated_tokens":$output,"seed":null,"input_length":$prompt}$:null$)`
