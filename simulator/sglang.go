package simulator

import (
	"encoding/json"
	"net/http"
)

// generate is the path that SGLang and TGI share. A body with inputs is TGI's.
type generate struct{ sglang }

func (generate) parse(r *http.Request, body []byte, c *Config) (*request, *apiError) {
	var w struct {
		Inputs json.RawMessage `json:"inputs"`
		Stream bool            `json:"stream"`
	}
	if problem := decode(body, &w); problem != nil {
		return nil, problem
	}
	if w.Inputs != nil {
		return tgi{stream: w.Stream}.parse(r, body, c)
	}
	return sglang{}.parse(r, body, c)
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

func (a sglang) parse(_ *http.Request, body []byte, c *Config) (*request, *apiError) {
	var w sglangBody
	if problem := decode(body, &w); problem != nil {
		return nil, problem
	}
	if w.Sampling.N != nil && *w.Sampling.N != 1 {
		return nil, badRequest("sampling_params.n: only 1 is simulated")
	}
	prompt := c.Model.newTokens()
	raw := w.InputIDs
	if kindOf(w.Text) == '"' {
		raw = w.Text
	}
	if kindOf(raw) == 0 {
		return nil, badRequest("the prompt is missing: give text, a string, or input_ids, an array of token ids")
	}
	if problem := prompt.prompt(raw); problem != nil {
		return nil, problem
	}
	q := newRequest(a, c.modelName(), &prompt)
	q.minTokens, q.ignoreEOS, q.stream = w.Sampling.MinNewTokens, w.Sampling.IgnoreEOS, w.Stream
	return q, q.limit(c, "max_new_tokens", w.Sampling.MaxNewTokens)
}

func (sglang) problem(e *apiError) (int, []byte) { return e.status, sglangError(e) }

// sglangError returns SGLang's error object, which streams use too.
func sglangError(e *apiError) []byte {
	return jsonOf(map[string]any{"error": map[string]string{"message": e.Message}})
}

func (sglang) encoder(q *request, c *Config, id string, _ int64) encoder {
	return &sglangEncoder{frameWriter: newFrameWriter(q, c), id: appendToken(nil, id),
		finishFrame: c.Frames.FinishFrame, most: q.maxTokens}
}

// sglangEncoder writes one answer of SGLang's API.
type sglangEncoder struct {
	frameWriter
	id          []byte
	finishFrame bool
	most        int
}

func (e *sglangEncoder) opening(b []byte) []byte { return b }

func (e *sglangEncoder) tokens(b []byte, _, until int, finish string) []byte {
	if e.finishFrame {
		finish = ""
	}
	return e.object(e.open(b), until, finish)
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
	case finishLength:
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
		b = number(b, "cached_tokens", e.cached)
	}
	b = append(b, '}')
	return e.close(b)
}

// closing appends the finish reason, if it is sent separately, and the mark.
func (e *sglangEncoder) closing(b []byte, part, output int, finish string) ([]byte, bool) {
	switch part {
	case 0:
		if e.finishFrame {
			b = e.object(e.open(b), output, finish)
		}
	case 1:
		b = e.mark(b)
	}
	return b, part < 2
}

func (e *sglangEncoder) mark(b []byte) []byte {
	if e.noEndMark || !e.stream {
		return b
	}
	return e.raw(b, "[DONE]")
}

func (e *sglangEncoder) whole(b []byte, output int, finish string) []byte {
	return e.object(b, output, finish)
}

func (e *sglangEncoder) failure(b []byte, problem *apiError) []byte {
	return e.raw(b, string(sglangError(problem)))
}

func (e *sglangEncoder) broken(b []byte) []byte { return e.raw(b, `{"text":" water ri`) }
