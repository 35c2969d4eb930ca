package api

import (
	"encoding/json"
	"net/http"

	"github.com/spate-load/spate/simulator/config"
)

// generate is the path that SGLang and TGI share. A body with inputs is TGI's.
type generate struct{ sglang }

var sglangRoutes = map[string]API{"POST /generate": generate{}}

func (generate) Parse(r *http.Request, body []byte, c *config.Config) (*Request, *Error) {
	var w struct {
		Inputs json.RawMessage `json:"inputs"`
		Stream bool            `json:"stream"`
	}
	if problem := decode(body, &w); problem != nil {
		return nil, problem
	}
	if w.Inputs != nil {
		return tgi{stream: w.Stream}.Parse(r, body, c)
	}
	return sglang{}.Parse(r, body, c)
}

// sglang is SGLang's /generate. Each frame carries the whole text so far.
type sglang struct{}

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
	if problem := decode(body, &w); problem != nil {
		return nil, problem
	}
	if w.Sampling.N != nil && *w.Sampling.N != 1 {
		return nil, BadRequest("sampling_params.n: only 1 is simulated")
	}
	prompt := newTokens(&c.Model)
	raw := w.InputIDs
	if kindOf(w.Text) == '"' {
		raw = w.Text
	}
	if kindOf(raw) == 0 {
		return nil, BadRequest("the prompt is missing: give text, a string, or input_ids, an array of token ids")
	}
	if problem := prompt.prompt(raw); problem != nil {
		return nil, problem
	}
	q := newRequest(a, c.ServedName(), &prompt)
	q.minTokens, q.IgnoreEOS, q.Stream = w.Sampling.MinNewTokens, w.Sampling.IgnoreEOS, w.Stream
	return q, q.limit(c, "max_new_tokens", w.Sampling.MaxNewTokens)
}

func (sglang) Problem(e *Error, _ *http.Request, _ http.Header) (int, []byte) {
	return e.status, sglangError(e)
}

// sglangError returns SGLang's error object, which streams use too.
func sglangError(e *Error) []byte {
	return JSON(map[string]any{"error": map[string]string{"message": e.Message}})
}

func (sglang) Encoder(q *Request, c *config.Config, id string, _ int64) Encoder {
	return &sglangEncoder{FrameWriter: newFrameWriter(q, c), id: AppendToken(nil, id), most: q.MaxTokens}
}

// sglangEncoder writes one answer of SGLang's API.
type sglangEncoder struct {
	FrameWriter
	id   []byte
	most int
}

func (e *sglangEncoder) Tokens(b []byte, _, until int, finish string) []byte {
	return e.object(e.open(b), until, e.inFrame(finish))
}

// object appends the text and its meta_info.
func (e *sglangEncoder) object(b []byte, until int, finish string) []byte {
	b = append(b, `{"text":`...)
	b = e.text(b, 0, until)
	b = append(b, `,"output_ids":`...)
	b = e.ids(b, 0, until)
	b = append(b, `,"meta_info":{"id":"`...)
	b = append(b, e.id...)
	b = append(b, `","finish_reason":`...)
	switch finish {
	case "":
		b = append(b, `null`...)
	case FinishLength:
		b = append(b, `{"type":"length"`...)
		b = number(b, "length", e.most)
		b = append(b, '}')
	default:
		b = append(b, `{"type":"stop"`...)
		b = number(b, "matched", endToken)
		b = append(b, '}')
	}
	if !e.noUsage {
		b = number(b, "prompt_tokens", e.prompt)
		b = number(b, "completion_tokens", until)
		b = number(b, "cached_tokens", e.Cached)
	}
	b = append(b, '}')
	return e.close(b)
}

// Closing appends the finish reason, if it is sent separately, and the mark.
func (e *sglangEncoder) Closing(b []byte, part, output int, finish string) ([]byte, bool) {
	switch part {
	case 0:
		if e.finishFrame {
			b = e.object(e.open(b), output, finish)
		}
	case 1:
		b = e.Mark(b)
	}
	return b, part < 2
}

func (e *sglangEncoder) Mark(b []byte) []byte { return e.openAIMark(b) }

func (e *sglangEncoder) Whole(b []byte, output int, finish string) []byte {
	return e.object(b, output, finish)
}

func (e *sglangEncoder) Failure(b []byte, problem *Error) []byte {
	return e.raw(b, string(sglangError(problem)))
}

func (e *sglangEncoder) Broken(b []byte) []byte { return e.raw(b, `{"text":" water ri`) }
