package api

import (
	"context"
	"encoding/json"
	"math"

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

// ChatWithImage returns the messages of a chat, in OpenAI's form, with one user message: a text, and an image by its
// URL.
func ChatWithImage(text, url string) []map[string]any {
	return []map[string]any{{"role": "user", "content": []map[string]any{
		{"type": "text", "text": text}, {"type": "image_url", "image_url": map[string]string{"url": url}},
	}}}
}
