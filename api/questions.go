package api

import (
	"context"
	"encoding/json"
	"math"
	"slices"

	"github.com/spate-load/spate/api/jsonscan"
)

// Server is an endpoint that is asked a question before load is sent. Its methods block until the answer has arrived.
type Server interface {
	// Model returns the model that requests ask for.
	Model() string
	// Field returns a field that the plan adds to bodies. False: the plan does not.
	Field(name string) (value any, given bool)
	// Get asks for a path, which starts like the API's own at the root of the endpoint, with API.Version if it has one.
	// It decodes the JSON answer.
	Get(ctx context.Context, path string, answer any) error
	// Post is Get with fields, which are sent as JSON.
	Post(ctx context.Context, path string, fields map[string]any, answer any) error
	// Unusable returns the error for an answer to a POST that lacks what was asked for.
	Unusable(path, message string) error
}

// Model is one entry of a server's list of models.
type Model struct {
	// ID is the name that requests ask for.
	ID string
	// Owner as the server reports it. Serving engines put their own name there: "vllm", "sglang", "tensorrt_llm". May
	// be empty.
	Owner string
	// MaxModelTokens is the largest sum of prompt and output, in tokens. 0: the server does not report it.
	MaxModelTokens uint32
}

// Tokens is a server's count of a text's tokens.
type Tokens struct {
	// Count includes the special tokens that the server adds.
	Count uint64
	// MaxModelTokens is as in Model.
	MaxModelTokens uint32
}

// CountBy asks a path for a count of tokens, a field of the answer.
func CountBy(ctx context.Context, s Server, path string, fields map[string]any, field string) (Tokens, error) {
	var answer map[string]json.RawMessage
	if err := s.Post(ctx, path, fields, &answer); err != nil {
		return Tokens{}, err
	}
	n, given := jsonscan.Count(answer[field])
	if !given {
		return Tokens{}, s.Unusable(path, "the answer has no "+field)
	}
	return Tokens{Count: n}, nil
}

// TokenLimit returns a token limit, or 0 for none. Some servers write -1 or 10^30 for no limit.
func TokenLimit(n json.Number) uint32 {
	v, ok := jsonscan.DecodeCount([]byte(n))
	if !ok || v > math.MaxInt32 {
		return 0
	}
	return uint32(v)
}

// ChatOf returns the messages of a chat with one user message.
func ChatOf(text string) []map[string]string {
	return []map[string]string{{"role": "user", "content": text}}
}

// Turns is how an API writes messages whose content is a list of parts.
type Turns struct {
	// Assistant is the role of the model's messages.
	Assistant string
	// Parts is the field of a message's parts.
	Parts string
	// SystemOpen and SystemClose enclose the parts of system prompts, which follow the messages as a field of the body.
	SystemOpen, SystemClose string
}

var (
	messageFields = []string{"role", "content"}
	partFields    = []string{"text"}
)

// Rewrite rewrites OpenAI's messages, dst[from:], and returns the extended dst. Anything else stays as it is. Only text
// is kept: parts of messages that are not text, such as images, are left out.
func (t *Turns) Rewrite(dst []byte, from int) []byte {
	messages := slices.Clone(dst[from:])
	if len(messages) == 0 || messages[0] != '[' {
		return dst
	}
	dst = append(dst[:from], '[')
	var system []byte
	jsonscan.Each(messages, func(message []byte) {
		var v [2][]byte
		jsonscan.NestedMembers(message, messageFields, v[:])
		role := v[0]
		switch string(jsonscan.StringBytes(role)) {
		case "system", "developer":
			system = appendParts(system, v[1])
			return
		case "assistant":
			role = []byte(`"` + t.Assistant + `"`)
		}
		if dst[len(dst)-1] != '[' {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, `{"role":`...), role...), `,"`...)
		dst = append(append(dst, t.Parts...), `":[`...)
		dst = append(appendParts(dst, v[1]), `]}`...)
	})
	dst = append(dst, ']')
	if len(system) > 0 {
		dst = append(append(append(dst, t.SystemOpen...), system...), t.SystemClose...)
	}
	return dst
}

// appendParts appends the texts of a message's content: a string, or a list of parts.
func appendParts(dst, content []byte) []byte {
	if len(content) > 0 && content[0] == '"' {
		return appendPart(dst, content)
	}
	jsonscan.Each(content, func(part []byte) {
		var v [1][]byte
		jsonscan.NestedMembers(part, partFields, v[:])
		if len(v[0]) > 0 {
			dst = appendPart(dst, v[0])
		}
	})
	return dst
}

func appendPart(dst, text []byte) []byte {
	if n := len(dst); n > 0 && dst[n-1] == '}' {
		dst = append(dst, ',')
	}
	return append(append(append(dst, `{"text":`...), text...), '}')
}

// UserMessages returns a chat with one user message, as JSON.
func (t *Turns) UserMessages(text string) (json.RawMessage, error) {
	messages, err := json.Marshal(ChatOf(text))
	return t.Rewrite(messages, 0), err
}
