package simulator

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// tokenization is a request to /tokenize, in vLLM's form: a prompt or messages.
type tokenization struct {
	Model    *string         `json:"model"`
	Prompt   json.RawMessage `json:"prompt"`
	Messages []message       `json:"messages"`
}

// tokenize answers with the tokens of a text or a conversation, counted as in a prompt.
func (ep *Endpoint) tokenize(w http.ResponseWriter, r *http.Request) {
	body, problem := ep.read(w, r)
	if problem != nil {
		problem.writeTo(w)
		return
	}
	t, problem := parseTokenization(body, &ep.config)
	if problem != nil {
		problem.writeTo(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(appendTokens(nil, t, ep.modelLength()))
}

func parseTokenization(body []byte, c *Config) (*tokens, *apiError) {
	var q tokenization
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, badRequest("the body is not a JSON object of this API: " + err.Error())
	}
	if q.Model != nil && c.ModelName != "" && *q.Model != c.ModelName {
		return nil, unknownModel(*q.Model)
	}
	t := &tokens{keep: true}
	switch kind := kindOf(q.Prompt); {
	case kind == 0 || kind == 'n':
		return t, t.conversation(q.Messages, c.ChatTemplateTokens)
	case q.Messages != nil:
		return nil, badRequest("prompt and messages are both given: give one of them")
	case kind != '"':
		return nil, badRequest("prompt is not a string")
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
