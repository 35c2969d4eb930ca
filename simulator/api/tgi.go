package api

import (
	"encoding/json"
	"net/http"
	"strconv"

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
	if problem := decode(body, &w); problem != nil {
		return nil, problem
	}
	prompt := newTokens(&c.Model)
	if kindOf(w.Inputs) != '"' {
		return nil, BadRequest("inputs is missing or not a string")
	}
	if problem := prompt.prompt(w.Inputs); problem != nil {
		return nil, problem
	}
	q := newRequest(a, c.ServedName(), &prompt)
	q.Stream, q.IgnoreEOS, q.details = a.stream, w.Parameters.IgnoreEOS, w.Parameters.Details
	return q, q.limit(c, "max_new_tokens", w.Parameters.MaxNewTokens)
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
	return status, tgiError(e.Message, kind)
}

func tgiError(message, kind string) []byte {
	return JSON(struct {
		Error string `json:"error"`
		Type  string `json:"error_type"`
	}{message, kind})
}

func (tgi) Encoder(q *Request, c *config.Config, _ string, _ int64) Encoder {
	e := &tgiEncoder{FrameWriter: newFrameWriter(q, c), details: q.details}
	e.field = "data:"
	return e
}

// tgiEncoder writes one answer of TGI's API.
type tgiEncoder struct {
	FrameWriter
	details bool
}

func (e *tgiEncoder) Tokens(b []byte, from, until int, finish string) []byte {
	for i := max(from, e.script.Hidden); i < until; i++ {
		b = e.open(b)
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(i+1), 10)
		b = append(b, `,"token":`...)
		b = e.appendToken(b, i)
		if finish == "" || i+1 < until {
			b = append(b, `,"generated_text":null,"details":null`...)
		} else {
			b = append(b, `,"generated_text":`...)
			b = e.text(b, 0, until)
			b = append(b, `,"details":`...)
			b = e.appendDetails(b, until, finish)
		}
		b = e.close(b)
	}
	return b
}

// appendToken appends the object of a token. The end-of-sequence token has its own text, which is not in
// generated_text.
func (e *tgiEncoder) appendToken(b []byte, i int) []byte {
	id := e.token(i)
	b = append(b, `{"id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"text":`...)
	if id == endToken {
		return append(b, `"</s>","logprob":-0.125,"special":true}`...)
	}
	b = e.text(b, i, i+1)
	return append(b, `,"logprob":-0.125,"special":false}`...)
}

// appendDetails appends the final details object, or null if usage is left out.
func (e *tgiEncoder) appendDetails(b []byte, output int, finish string) []byte {
	if e.noUsage {
		return append(b, `null`...)
	}
	if finish == FinishStop {
		finish = "eos_token"
	}
	b = append(b, `{"finish_reason":"`...)
	b = append(b, finish...)
	b = append(b, '"')
	b = number(b, "generated_tokens", output)
	b = append(b, `,"seed":null`...)
	b = number(b, "input_length", e.prompt)
	return append(b, '}')
}

func (e *tgiEncoder) Whole(b []byte, output int, finish string) []byte {
	b = append(b, `{"generated_text":`...)
	b = e.text(b, 0, output)
	if e.details {
		b = append(b, `,"details":`...)
		b = e.appendDetails(b, output, finish)
	}
	return e.close(b)
}

func (e *tgiEncoder) Failure(b []byte, problem *Error) []byte {
	return e.raw(b, string(tgiError("Request failed during generation: "+problem.Message, "generation")))
}

func (e *tgiEncoder) Broken(b []byte) []byte { return e.raw(b, `{"index":2,"token":{"id":1001,"te`) }
