package api

import (
	"encoding/json"
	"strconv"

	"github.com/spate-load/spate/simulator/config"
)

// tokenization is a request to /tokenize, in vLLM's form: a prompt or messages.
type tokenization struct {
	Model    *string         `json:"model"`
	Prompt   json.RawMessage `json:"prompt"`
	Messages []message       `json:"messages"`
}

// Tokenizer is /tokenize. It answers with the tokens of a text or a conversation, counted as in a prompt.
var Tokenizer Counter = tokenizer{openAI{frames: &chatFrames}}

type tokenizer struct{ openAI }

// Count implements Counter.
func (tokenizer) Count(body []byte, c *config.Config) ([]byte, *Error) {
	t, problem := parseTokenization(body, c)
	if problem != nil {
		return nil, problem
	}
	return appendTokens(nil, t, ModelLength(c)), nil
}

func parseTokenization(body []byte, c *config.Config) (*tokens, *Error) {
	var q tokenization
	if problem := decode(body, &q); problem != nil {
		return nil, problem
	}
	if q.Model != nil && !c.Serves(*q.Model) {
		return nil, unknownModel(*q.Model)
	}
	t := &tokens{keep: true}
	switch kind := kindOf(q.Prompt); {
	case kind == 0 || kind == 'n':
		return t, t.conversation(q.Messages, c.ChatTemplateTokens)
	case q.Messages != nil:
		return nil, BadRequest("prompt and messages are both given: give one of them")
	case kind != '"':
		return nil, BadRequest("prompt is not a string")
	default:
		return t, t.prompt(q.Prompt)
	}
}

// appendTokens appends the response's body.
func appendTokens(b []byte, t *tokens, length string) []byte {
	b = append(b, `{"count":`...)
	b = strconv.AppendInt(b, int64(t.count), 10)
	b = append(b, `,"max_model_len":`...)
	b = append(b, length...)
	b = append(b, `,"tokens":[`...)
	for i, id := range t.ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, id, 10)
	}
	return append(b, `],"token_strs":null}`...)
}

// ModelLength returns the maximum of prompt and output together as JSON, null if there is no limit.
func ModelLength(c *config.Config) string {
	if n := c.MaxModelTokens; n > 0 {
		return strconv.Itoa(n)
	}
	return "null"
}
