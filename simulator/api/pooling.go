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
	inputs []string // members of the body: each is a text or a list of texts
	write  func(b []byte, inputs int) []byte
	usage  string // around the number of tokens, which stands for #; empty: none
}

var poolingRoutes = map[string]API{
	"POST /v1/embeddings": pooling{[]string{"input"}, writeData("embedding", vector), countedUsage},
	"POST /embed":         pooling{[]string{"inputs"}, writeVectors, ""},
	"POST /v2/embed": pooling{[]string{"texts"},
		func(b []byte, n int) []byte {
			return append(writeVectors(append(b, `{"id":"e-1","embeddings":{"float":`...), n), '}')
		}, `,"meta":{"api_version":{"version":"2"},"billed_units":{"input_tokens":#}},"response_type":"embeddings_by_type"}`},
	"POST /rerank":    pooling{[]string{"query", "documents"}, writeRanks, countedUsage}, // vLLM has both paths, and LiteLLM uses this one
	"POST /v1/rerank": pooling{[]string{"query", "documents"}, writeRanks, countedUsage},
	"POST /v2/rerank": pooling{[]string{"query", "documents"}, writeRanks,
		`,"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1},"tokens":{"input_tokens":#}}}`},
	"POST /score": pooling{[]string{"text_1", "text_2"}, func(b []byte, n int) []byte { return writeData("score", "0.5")(b, n-1) }, countedUsage},
}

const (
	countedUsage = `,"usage":{"prompt_tokens":#,"total_tokens":#}}`
	dimensions   = 256
)

// vector is an embedding.
var vector = "[" + strings.Repeat("0.015625,", dimensions-1) + "0.015625]"

// texts returns the texts of a member that holds one or a list of them. A text may be token ids, which are a list of
// numbers.
func (r *reading) texts(name string) (list []json.RawMessage) {
	raw := r.member(name)
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 || !strings.ContainsAny(string(list[0][:1]), `"[`) {
		return []json.RawMessage{raw}
	}
	return list
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
	return append(append(append(b, '['), strings.TrimSuffix(strings.Repeat(vector+",", n), ",")...), ']')
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
	r := read(apis["pooling"], c, body)
	count := 0
	for _, name := range a.inputs {
		texts := r.texts(name)
		for _, text := range texts {
			r.text(text)
		}
		count += len(texts)
	}
	r.model, r.MaxTokens = get[string](r, "model"), 1
	r.pooled = func(b []byte) []byte {
		return append(a.write(b, count), strings.ReplaceAll(a.usage, "#", strconv.Itoa(r.PromptTokens))...)
	}
	return r.done()
}

func (pooling) Problem(e *Error) (int, []byte) { return e.status, e.json() }

// Tokenize is /tokenize. It takes a prompt or messages, in vLLM's form, and answers with their tokens, counted as in a
// prompt.
func Tokenize(body []byte, c *config.Config) ([]byte, *Error) {
	r := read(apis["chat"], c, body)
	r.prompt = tokens{keep: true, ids: []uint64{}}
	if model := get[string](r, "model"); model != "" {
		r.named(model)
	}
	if prompt := r.member("prompt"); prompt != nil {
		r.require(r.member("messages") == nil, "prompt and messages are both given: give one of them")
		r.require(kindOf(prompt) == '"', "prompt is not a string")
		r.text(prompt)
	} else {
		r.conversation(get[[]message](r, "messages"))
	}
	if r.problem != nil {
		return nil, r.problem
	}
	return JSON(struct {
		Count     int             `json:"count"`
		Limit     json.RawMessage `json:"max_model_len"`
		Tokens    []uint64        `json:"tokens"`
		TokenStrs []string        `json:"token_strs"`
	}{r.prompt.count, json.RawMessage(ModelLength(c)), r.prompt.ids, nil}), nil
}

// ModelLength returns the maximum of prompt and output together as JSON, null if there is no limit.
func ModelLength(c *config.Config) string {
	if n := c.MaxModelTokens; n > 0 {
		return strconv.Itoa(n)
	}
	return "null"
}
