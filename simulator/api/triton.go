package api

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/spate-load/spate/simulator/config"
)

// triton is Triton's generate extension in front of the ensemble of TensorRT-LLM's backend. It reports neither the
// finish reason nor the length of an output, and its streams have no end mark.
type triton struct {
	*frames
	stream bool
}

var tritonRoutes = map[string]API{
	"POST /v2/models/{model}/generate":                           triton{&tritonFrames, false},
	"POST /v2/models/{model}/generate_stream":                    triton{&tritonFrames, true},
	"POST /v2/models/{model}/versions/{version}/generate":        triton{&tritonFrames, false},
	"POST /v2/models/{model}/versions/{version}/generate_stream": triton{&tritonFrames, true},
}

// tritonBody has the fields of the backend's model. The extension also allows them in parameters.
type tritonBody struct {
	tritonParameters
	TextInput  json.RawMessage  `json:"text_input"`
	InputIDs   json.RawMessage  `json:"input_ids"`
	Parameters tritonParameters `json:"parameters"`
}

type tritonParameters struct {
	MaxTokens *int `json:"max_tokens"`
	MinTokens *int `json:"min_tokens"`
	MinLength *int `json:"min_length"` // its name in older versions
	EndID     *int `json:"end_id"`
	IgnoreEOS bool `json:"ignore_eos"`
}

func (a triton) Parse(q *http.Request, body []byte, c *config.Config) (*Request, *Error) {
	var w tritonBody
	r := read(a, c, body, &w)
	r.named(q.PathValue("model"))
	raw := w.TextInput
	if kindOf(raw) != '"' {
		raw = w.InputIDs
	}
	r.require(kindOf(raw) != 0, "the prompt is missing: give text_input, a string, or input_ids, an array of token ids")
	r.text(raw)
	r.Stream = a.stream
	r.IgnoreEOS = w.IgnoreEOS || w.Parameters.IgnoreEOS || negative(w.EndID) || negative(w.Parameters.EndID)
	for _, least := range []*int{w.MinLength, w.MinTokens, w.Parameters.MinLength, w.Parameters.MinTokens} {
		if least != nil {
			r.minTokens = *least
		}
	}
	return r.done("max_tokens", w.MaxTokens, w.Parameters.MaxTokens)
}

// negative reports whether an end_id is one that no token has, which is how clients request outputs of exact length.
func negative(id *int) bool { return id != nil && *id < 0 }

var tritonFrames = frames{
	token:   parse(tritonObject),
	whole:   parse(tritonObject),
	failure: parse(`$(){"error":$problem}$end`),
	broken:  parse(`$(){"model_name":"ensemble","text_out$end`),
}

// tritonObject is an answer with some of the tokens. The backend reports the log probabilities of all tokens so far.
const tritonObject = `$(){"context_logits":0.0,"cum_log_probs":0.0,"generation_logits":0.0,"model_name":$model,
	"model_version":"1","output_log_probs":[$zeros],"sequence_end":false,"sequence_id":0,"sequence_index":0,
	"sequence_start":false,"text_output":$text$close`

// zeros appends the log probabilities.
func (p *FrameWriter) zeros(b []byte) []byte {
	for range p.until {
		b = append(b, "0.0,"...)
	}
	return bytes.TrimSuffix(b, []byte{','})
}
