package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

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

// Models asks an endpoint for its models: first in its API's own way, if there is one, then by GET /v1/models. It
// blocks for at most 40 s.
func (c *Client) Models(ctx context.Context, endpoint int) ([]Model, error) {
	if d, ok := c.dialect.(describer); ok {
		if models, _, err := d.describe(ctx, c, endpoint); len(models) > 0 || !refused(err) {
			return models, err
		}
	}
	var answer struct {
		Data []struct {
			ID      string      `json:"id"`
			OwnedBy string      `json:"owned_by"`
			Longest json.Number `json:"max_model_len"`
			Window  json.Number `json:"context_window"` // Dynamo's name for it
		} `json:"data"`
	}
	if err := c.call(ctx, c.at(endpoint, "/models", true), nil, &answer); err != nil {
		return nil, err
	}
	models := make([]Model, len(answer.Data))
	for i, m := range answer.Data {
		models[i] = Model{ID: m.ID, Owner: m.OwnedBy,
			MaxModelTokens: cmp.Or(tokenLimit(m.Longest), tokenLimit(m.Window))}
	}
	return models, nil
}

// tokenLimit returns a token limit, or 0 for none. Some servers write -1 or 10^30 for no limit.
func tokenLimit(n json.Number) uint32 {
	v, ok := decodeCount([]byte(n))
	if !ok || v > math.MaxInt32 {
		return 0
	}
	return uint32(v)
}

// Version asks an endpoint for the version of its software: first in its API's own way, if there is one, then by GET
// /version (vLLM, TensorRT-LLM), then by GET /get_server_info (SGLang). It blocks for at most 40 s.
func (c *Client) Version(ctx context.Context, endpoint int) (string, error) {
	if d, ok := c.dialect.(describer); ok {
		if _, version, err := d.describe(ctx, c, endpoint); version != "" || !refused(err) {
			return version, err
		}
	}
	var answer struct {
		Version string `json:"version"`
	}
	err := c.call(ctx, c.at(endpoint, "/version", false), nil, &answer)
	if refused, ok := errors.AsType[*Error](err); ok && refused.HTTPStatus == http.StatusNotFound {
		err = c.call(ctx, c.at(endpoint, "/get_server_info", false), nil, &answer)
	}
	return answer.Version, err
}

// Tokenize asks an endpoint how many tokens a text has as a prompt of completions: first in its API's own way, if there
// is one, then by POST /tokenize (vLLM, SGLang). It blocks for at most 20 s.
func (c *Client) Tokenize(ctx context.Context, endpoint int, text string) (Tokens, error) {
	if d, ok := c.dialect.(tokenCounter); ok {
		if t, err := d.count(ctx, c, endpoint, text, false); !refused(err) {
			return t, err
		}
	}
	return c.tokenize(ctx, endpoint, map[string]any{"model": c.model, "prompt": text})
}

// templateFields are the fields of a chat's body that affect its chat template.
var templateFields = []string{"add_generation_prompt", "add_special_tokens", "chat_template", "chat_template_kwargs",
	"continue_final_message", "tools"}

// TokenizeChat asks an endpoint how many tokens a chat with one user message has, including those that the chat
// template adds: POST /tokenize, as vLLM has it. Servers that take no messages there answer with an error. It blocks
// for at most 10 s.
func (c *Client) TokenizeChat(ctx context.Context, endpoint int, text string) (Tokens, error) {
	if d, ok := c.dialect.(tokenCounter); ok {
		if t, err := d.count(ctx, c, endpoint, text, true); !refused(err) {
			return t, err
		}
	}
	body := map[string]any{"model": c.model, "messages": chatOf(text)}
	for _, name := range templateFields {
		if value, ok := c.extra[name]; ok {
			body[name] = value
		}
	}
	return c.tokenize(ctx, endpoint, body)
}

// chatOf returns the messages of a chat with one user message.
func chatOf(text string) []map[string]string {
	return []map[string]string{{"role": "user", "content": text}}
}

func (c *Client) tokenize(ctx context.Context, endpoint int, fields map[string]any) (Tokens, error) {
	var answer struct {
		Count   *uint64           `json:"count"`
		Longest json.Number       `json:"max_model_len"`
		Tokens  []json.RawMessage `json:"tokens"`
	}
	if err := c.ask(ctx, endpoint, "/tokenize", false, fields, &answer); err != nil {
		return Tokens{}, err
	}
	t := Tokens{Count: uint64(len(answer.Tokens)), MaxModelTokens: tokenLimit(answer.Longest)}
	switch {
	case answer.Count != nil:
		t.Count = *answer.Count
	case answer.Tokens == nil:
		return Tokens{}, c.unusable("/tokenize", "the answer has neither count nor tokens")
	}
	return t, nil
}

// Measure asks an endpoint for one output token and returns how many tokens the endpoint counted in the prompt: those
// of the text and those that the server adds. The request has those of the plan's fields that can change the prompt. It
// blocks for at most 10 s.
func (c *Client) Measure(ctx context.Context, endpoint int, text string) (uint64, error) {
	path := c.dialect.traits().pathFor(c.model)
	encoded, err := c.promptOf(text)
	if err != nil {
		return 0, c.unusable(path, err.Error())
	}
	body := c.countBody.append(nil, 1, func(dst []byte) []byte { return append(dst, encoded...) }, c.rewriter)
	if c.dialect.traits().streamOnly {
		return c.measureStream(ctx, endpoint, body)
	}
	var answer json.RawMessage
	if err := c.call(ctx, c.endpoints[endpoint], body, &answer); err != nil {
		return 0, err
	}
	var f frame
	if err := c.dialect.frame(answer, &f); err != nil {
		return 0, c.unusable(path, "the answer does not match this API: "+err.Error())
	}
	if f.failed {
		return 0, c.unusable(path, f.fault)
	}
	return c.promptCount(f.input)
}

// promptOf returns a text as the prompt of a request: the only message of a chat, or the text itself.
func (c *Client) promptOf(text string) ([]byte, error) {
	if c.dialect.form() == workload.Messages {
		return json.Marshal(chatOf(text))
	}
	return json.Marshal(text)
}

// measureStream implements Measure for an API that can only stream.
func (c *Client) measureStream(ctx context.Context, endpoint int, body []byte) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var o Observation
	c.Do(ctx, Request{Endpoint: endpoint, Body: body}, &o)
	switch {
	case o.InputTokens > 0: // even if the request failed because its one token had no text
		return o.InputTokens, nil
	case o.Err != nil:
		return 0, o.Err
	case o.Cancelled:
		return 0, &Error{Class: spatev1.ErrorClass_ERROR_CLASS_TIMEOUT, Message: "POST " +
			c.dialect.traits().pathFor(c.model) + ": no answer in time"}
	}
	return c.promptCount(0)
}

// promptCount returns the server's count of a prompt's tokens, or an error if there is none.
func (c *Client) promptCount(tokens uint64) (uint64, error) {
	if tokens == 0 {
		return 0, c.unusable(c.dialect.traits().pathFor(c.model),
			"the answer does not match this API: no usage with prompt tokens")
	}
	return tokens, nil
}

// unusable returns the error for an answer that lacks what was asked for.
func (c *Client) unusable(path, message string) *Error {
	return &Error{Class: spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME,
		Message: c.secrets.clean("POST " + path + ": " + message)}
}
