package stream

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
)

// describer is a dialect whose servers describe themselves other than by GET /v1/models and /version.
type describer interface {
	// describe asks for the server's models and its version. Either may be empty.
	describe(ctx context.Context, c *Client, endpoint int) ([]Model, string, error)
}

// tokenCounter is a dialect whose servers count tokens other than by POST /tokenize.
type tokenCounter interface {
	// count counts the tokens of a text or, if chat, of a chat with the text as its one message.
	count(ctx context.Context, c *Client, endpoint int, text string, chat bool) (Tokens, error)
}

// describe implements describer by GET /info.
func (tgi) describe(ctx context.Context, c *Client, endpoint int) ([]Model, string, error) {
	var answer struct {
		Model   string      `json:"model_id"`
		Longest json.Number `json:"max_total_tokens"`
		Version string      `json:"version"`
	}
	if err := c.call(ctx, c.at(endpoint, "/info", false), nil, &answer); err != nil {
		return nil, "", err
	}
	return []Model{{ID: answer.Model, Owner: "tgi", MaxModelTokens: tokenLimit(answer.Longest)}}, answer.Version, nil
}

// count implements counter by POST /tokenize, which answers with a list of the text's tokens.
func (tgi) count(ctx context.Context, c *Client, endpoint int, text string, _ bool) (Tokens, error) {
	var tokens []json.RawMessage
	err := c.ask(ctx, endpoint, "/tokenize", false, map[string]any{"inputs": text}, &tokens)
	return Tokens{Count: uint64(len(tokens))}, err
}

// describe implements describer by GET /v2/models/MODEL and GET /v2.
func (triton) describe(ctx context.Context, c *Client, endpoint int) ([]Model, string, error) {
	var model struct{ Name string }
	if err := c.call(ctx, c.at(endpoint, "/v2/models/"+url.PathEscape(c.model), false), nil, &model); err != nil {
		return nil, "", err
	}
	var server struct{ Version string }
	err := c.call(ctx, c.at(endpoint, "/v2", false), nil, &server)
	return []Model{{ID: model.Name, Owner: "triton"}}, server.Version, err
}

// count always fails: Triton counts no tokens.
//
//nolint:unparam // it is a tokenCounter
func (triton) count(_ context.Context, c *Client, _ int, _ string, _ bool) (Tokens, error) {
	return Tokens{}, c.unusable("/tokenize", "this API cannot count tokens")
}

// count implements counter by POST /v1/messages/count_tokens. It always counts a chat: the API cannot count a text
// alone.
func (anthropic) count(ctx context.Context, c *Client, endpoint int, text string, _ bool) (Tokens, error) {
	fields := map[string]any{"model": c.model, "messages": chatOf(text)}
	for _, name := range []string{"tools", "tool_choice", "thinking"} {
		if value, ok := c.extra[name]; ok {
			fields[name] = value
		}
	}
	var answer struct {
		Tokens *uint64 `json:"input_tokens"`
	}
	err := c.ask(ctx, endpoint, "/messages/count_tokens", true, fields, &answer)
	if err == nil && answer.Tokens == nil {
		err = c.unusable("/v1/messages/count_tokens", "the answer has no input_tokens")
	}
	if err != nil {
		return Tokens{}, err
	}
	return Tokens{Count: *answer.Tokens}, nil
}

// ask posts fields to a path of an endpoint and decodes the answer.
func (c *Client) ask(
	ctx context.Context, endpoint int, path string, versioned bool, fields map[string]any, answer any,
) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return c.unusable(path, err.Error())
	}
	return c.call(ctx, c.at(endpoint, path, versioned), body, answer)
}

// refused reports whether a server answered with an error, such as for an unknown path.
func refused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.HTTPStatus != 0
}
