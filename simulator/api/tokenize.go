package api

import (
	"encoding/json"
	"strconv"

	"github.com/spate-load/spate/simulator/config"
)

// Tokenize is /tokenize. It takes a prompt or messages, in vLLM's form, and answers with their tokens, counted as in a
// prompt.
func Tokenize(body []byte, c *config.Config) ([]byte, *Error) {
	r := read(&chatFrames, c, body)
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
