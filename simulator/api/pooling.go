package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/spate-load/spate/simulator/config"
)

// pooling is an API of pooling models: its answers are vectors or scores, in one piece. The engine prefills the prompt
// and produces one token, which the answer does not show.
type pooling struct {
	inputs func(*poolingBody) []json.RawMessage
	write  func(b []byte, inputs int) []byte
	usage  string // around the number of tokens, which stands for #; empty: none
}

var poolingRoutes = map[string]API{
	"POST /v1/embeddings": pooling{some(func(w *poolingBody) json.RawMessage { return w.Input }), writeData("embedding", vector),
		countedUsage},
	"POST /embed": pooling{some(func(w *poolingBody) json.RawMessage { return w.Inputs }), writeVectors, ""},
	"POST /v2/embed": pooling{func(w *poolingBody) []json.RawMessage { return w.Texts },
		func(b []byte, n int) []byte {
			return append(writeVectors(append(b, `{"id":"e-1","embeddings":{"float":`...), n), '}')
		}, `,"meta":{"api_version":{"version":"2"},"billed_units":{"input_tokens":#}},"response_type":"embeddings_by_type"}`},
	"POST /rerank":    pooling{rerankInputs, writeRanks, countedUsage}, // vLLM has both paths, and LiteLLM uses this one
	"POST /v1/rerank": pooling{rerankInputs, writeRanks, countedUsage},
	"POST /v2/rerank": pooling{rerankInputs, writeRanks,
		`,"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1},"tokens":{"input_tokens":#}}}`},
	"POST /score": pooling{func(w *poolingBody) []json.RawMessage {
		return append([]json.RawMessage{w.Text1}, w.Text2...)
	}, func(b []byte, n int) []byte { return writeData("score", "0.5")(b, n-1) }, countedUsage},
}

const (
	countedUsage = `,"usage":{"prompt_tokens":#,"total_tokens":#}}`
	dimensions   = 256
)

// vector is an embedding.
var vector = "[" + strings.Repeat("0.015625,", dimensions-1) + "0.015625]"

// poolingBody has the texts of all these APIs.
type poolingBody struct {
	Model     string            `json:"model"`
	Input     json.RawMessage   `json:"input"`
	Inputs    json.RawMessage   `json:"inputs"`
	Texts     []json.RawMessage `json:"texts"`
	Query     json.RawMessage   `json:"query"`
	Documents []json.RawMessage `json:"documents"`
	Text1     json.RawMessage   `json:"text_1"`
	Text2     []json.RawMessage `json:"text_2"`
}

// some returns a function for the inputs of a field that holds a text or a list of texts. A text may be token ids,
// which are a list of numbers.
func some(field func(*poolingBody) json.RawMessage) func(*poolingBody) []json.RawMessage {
	return func(w *poolingBody) []json.RawMessage {
		var list []json.RawMessage
		if err := json.Unmarshal(field(w), &list); err != nil || len(list) == 0 || !strings.ContainsAny(string(list[0][:1]), `"[`) {
			return []json.RawMessage{field(w)}
		}
		return list
	}
}

func rerankInputs(w *poolingBody) []json.RawMessage {
	return append([]json.RawMessage{w.Query}, w.Documents...)
}

// writeData returns a function that writes OpenAI's list of results, objects whose type has the same name as their
// field.
func writeData(object, value string) func(b []byte, n int) []byte {
	return func(b []byte, n int) []byte {
		return append(writeList(append(b, `{"object":"list","data":`...), `{"object":"`+object+`","`+object+`":`+value, `}`, n),
			`,"model":"m"`...)
	}
}

func writeVectors(b []byte, n int) []byte {
	b = append(b, '[')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, vector...)
	}
	return append(b, ']')
}

// writeRanks writes a result for each document: all inputs but the query.
func writeRanks(b []byte, n int) []byte {
	return writeList(append(b, `{"id":"r-1","results":`...), `{"relevance_score":0.5`, `}`, n-1)
}

// writeList writes a list of objects that differ in their index.
func writeList(b []byte, before, after string, n int) []byte {
	b = append(b, '[')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(number(append(b, before...), "index", i), after...)
	}
	return append(b, ']')
}

func (a pooling) Parse(_ *http.Request, body []byte, c *config.Config) (*Request, *Error) {
	var w poolingBody
	r := read(a, c, body, &w)
	inputs := a.inputs(&w)
	for _, text := range inputs {
		r.text(text)
	}
	one := 1
	r.model, r.inputs = w.Model, len(inputs)
	return r.done("max_tokens", &one)
}

func (pooling) Problem(e *Error, _ *http.Request, _ http.Header) (int, []byte) {
	return e.status, e.json()
}

func (a pooling) Encoder(q *Request, c *config.Config, _ string, _ int64) Encoder {
	return &poolingEncoder{newFrameWriter(&poolingFrames, q, c, "", 0), a, q.inputs}
}

// poolingEncoder writes one answer of a pooling API.
type poolingEncoder struct {
	*FrameWriter
	api    pooling
	inputs int
}

func (e *poolingEncoder) Whole(b []byte, _ int, _ string) []byte {
	b = e.api.write(b, e.inputs)
	return append(b, strings.ReplaceAll(e.api.usage, "#", strconv.Itoa(e.prompt))...)
}

var poolingFrames = frames{failure: parse(`$error`), broken: parse(`{"data":[{"embedding":[0.01`)}
