package api

import (
	"encoding/json"
	"slices"

	"github.com/spate-load/spate/api/jsonscan"
)

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
