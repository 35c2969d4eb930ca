package stream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/bodies"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

// Calls query a server before load is sent. They use the same connections, headers and secrets as requests, but are
// neither timed nor retried. All block until the answer has arrived, the context ends or callTimeout has passed. Their
// errors are *Error, except when ctx was cancelled, which says nothing about the server: they then wrap
// context.Canceled.
const (
	callTimeout = 10 * time.Second
	// callLimit is the longest answer. The token ids of a text of 100,000 tokens take less than a fifth of it.
	callLimit = 4 << 20
)

// at returns the URL of another path of an endpoint. A version of the API at the start of the path is left out if the
// endpoint's URL has its own.
func (c *Client) at(endpoint int, path string) *url.URL {
	u := *c.endpoints[endpoint]
	a := c.dialect
	prefix, versioned := strings.CutSuffix(strings.TrimSuffix(u.RawPath, a.PathFor(c.model)), a.Version)
	if !versioned {
		path = strings.TrimPrefix(path, a.Version)
	}
	u.RawPath = prefix + path
	if a.Query != "" {
		u.RawQuery = ""
	}
	if u.Path, _ = url.PathUnescape(u.RawPath); u.Path == u.RawPath {
		u.RawPath = ""
	}
	return &u
}

// call sends a POST with a body, or a GET if body is nil, and decodes the answer.
func (c *Client) call(ctx context.Context, u *url.URL, body []byte, answer any) error {
	headers := c.headers.Clone()
	headers.Set("Accept", "application/json")
	q := c.callRequest(u, headers, body)
	_, data, err := c.fetch(ctx, q)
	if err != nil {
		return err
	}
	err = json.Unmarshal(data, answer)
	switch page := webPageHint(data); {
	case err != nil && page != "":
		return c.callFailed(q, spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME, errors.New("the answer is not JSON"+page))
	case err != nil:
		return c.callFailed(q, spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME,
			fmt.Errorf("the answer does not match this API: %s", describeJSONError(err)))
	}
	return nil
}

// describeJSONError describes a JSON error without naming Go types.
func describeJSONError(err error) string {
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if field := strings.TrimPrefix(mismatch.Field, "."); field != "" {
			return fmt.Sprintf("unexpected %s in %q", mismatch.Value, field)
		}
		return "unexpected " + mismatch.Value
	}
	return err.Error()
}

// fetch sends a request and returns the head and the body of its answer. Any status but 200 is an error.
func (c *Client) fetch(ctx context.Context, q *wire.Outgoing) (http.Header, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.exchange(ctx, q)
}

// exchange is fetch without its timeout.
func (c *Client) exchange(ctx context.Context, q *wire.Outgoing) (http.Header, []byte, error) {
	user := new(untimedUser)
	response, err := c.send(ctx, q, user)
	if err != nil && user.reused && user.io.FirstByte == 0 && ctx.Err() == nil { // as for requests: see roundTrip
		if body, ok := q.Body.(callBody); ok {
			body.Reset(body.all)
		}
		q.NewConn = true
		response, err = c.send(ctx, q, user)
	}
	if err != nil {
		return nil, nil, c.callEnded(q, spatev1.ErrorClass_ERROR_CLASS_CONNECT, err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, callLimit+1))
	switch {
	case err != nil:
		return nil, nil, c.callEnded(q, spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM, err)
	case response.StatusCode != http.StatusOK:
		e := c.callFailed(q, spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS,
			fmt.Errorf("%s%s", c.pool.Status(response), bodyExcerpt(data)))
		e.HTTPStatus = response.StatusCode
		return nil, nil, e
	case len(data) > callLimit:
		return nil, nil, c.callFailed(q, spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME,
			fmt.Errorf("the answer is longer than %d MiB", callLimit>>20))
	}
	return response.Header, data, nil
}

// bodyExcerpt returns the start of an answer's body for an error message. The text of a web page is left out.
func bodyExcerpt(data []byte) string {
	if webPageHint(data) != "" {
		return " (a web page)"
	}
	return fmt.Sprintf(": %.*s", 8*messageLimit, bytes.TrimSpace(data))
}

// callRequest returns the request of a call.
func (c *Client) callRequest(u *url.URL, headers http.Header, body []byte) *wire.Outgoing {
	q := &wire.Outgoing{Method: http.MethodGet, URL: u, Host: c.host, Headers: headers, Lines: wire.LinesOf(headers)}
	if body != nil {
		q.Method, q.Body, q.Length = http.MethodPost, callBody{bytes.NewReader(body), body}, len(body)
	}
	return q
}

// callBody is the body of a call, which can be sent again.
type callBody struct {
	*bytes.Reader
	all []byte
}

// Close implements io.Closer.
func (callBody) Close() error { return nil }

// untimedUser is the wire.User of calls. The connection counts as used afterwards, so the first timed request on it
// does not count as having opened it.
type untimedUser struct {
	reused bool           // the connection had been used before
	io     wire.RequestIO // what the connection records
}

// GotConn implements wire.User.
func (u *untimedUser) GotConn(c *wire.Conn, reused bool) *wire.RequestIO {
	u.reused, u.io = reused, wire.RequestIO{}
	c.StartRequest(&u.io)
	c.EndRequest(&u.io)
	return &u.io
}

// callEnded returns why a call ended without an answer.
func (c *Client) callEnded(q *wire.Outgoing, class spatev1.ErrorClass, err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s %s: %w", q.Method, q.URL.Path, context.Canceled)
	}
	return c.callFailed(q, class, err)
}

// callFailed returns an error that names the call and why it failed.
func (c *Client) callFailed(q *wire.Outgoing, class spatev1.ErrorClass, err error) *Error {
	if errors.Is(err, context.DeadlineExceeded) {
		class, err = spatev1.ErrorClass_ERROR_CLASS_TIMEOUT, errors.New("no answer in time")
	}
	if known, ok := errors.AsType[*wire.DialError](err); ok {
		class = known.Class
	}
	return &Error{Class: class, Message: c.secrets.Clean(fmt.Sprintf("%s %s: %v", q.Method, q.URL.Path, err))}
}

// server is an endpoint as an API asks it. It implements Server.
type server struct {
	c        *Client
	endpoint int
}

// server returns an endpoint as an API asks it.
func (c *Client) server(endpoint int) server { return server{c, endpoint} }

func (s server) Model() string { return s.c.model }

func (s server) Field(name string) (value any, given bool) {
	value, given = s.c.config.Body[name]
	return value, given
}

func (s server) Get(ctx context.Context, path string, answer any) error {
	return s.c.call(ctx, s.c.at(s.endpoint, path), nil, answer)
}

func (s server) Post(ctx context.Context, path string, fields map[string]any, answer any) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return s.Unusable(path, err.Error())
	}
	return s.c.call(ctx, s.c.at(s.endpoint, path), body, answer)
}

func (s server) Unusable(path, message string) error { return s.c.unusable(path, message) }

// Models asks an endpoint for its models: first in its API's own way, if there is one, then by GET /v1/models. It
// blocks for at most 40 s.
func (c *Client) Models(ctx context.Context, endpoint int) ([]api.Model, error) {
	models, err := c.listModels(ctx, endpoint)
	for i := range models { // a key that is part of a model's name is not masked: requests name the model
		models[i].ID = secrets{}.Clean(models[i].ID)
	}
	return models, err
}

// listModels is Models, as the server says it.
func (c *Client) listModels(ctx context.Context, endpoint int) ([]api.Model, error) {
	if describe := c.dialect.Describe; describe != nil {
		if models, _, err := describe(ctx, c.server(endpoint)); len(models) > 0 || !refused(err) {
			return models, err
		}
	}
	var answer struct {
		Data []struct {
			ID      string      `json:"id"`
			OwnedBy string      `json:"owned_by"`
			Longest json.Number `json:"max_model_len"`
			Window  json.Number `json:"context_window"` // Dynamo's name for it
			Meta    struct {
				Window json.Number `json:"n_ctx"` // llama.cpp's
			} `json:"meta"`
		} `json:"data"`
	}
	if err := c.server(endpoint).Get(ctx, "/v1/models", &answer); err != nil {
		return nil, err
	}
	models := make([]api.Model, len(answer.Data))
	for i, m := range answer.Data {
		models[i] = api.Model{ID: m.ID, Owner: m.OwnedBy,
			MaxModelTokens: cmp.Or(api.TokenLimit(m.Longest), api.TokenLimit(m.Window),
				api.TokenLimit(m.Meta.Window))}
	}
	return models, nil
}

// Version asks an endpoint for the version of its software: first in its API's own way, if there is one, then by GET
// /version (vLLM, TensorRT-LLM), then by GET /get_server_info (SGLang). It blocks for at most 40 s.
func (c *Client) Version(ctx context.Context, endpoint int) (string, error) {
	version, err := c.askVersion(ctx, endpoint)
	return c.secrets.Clean(version), err
}

// askVersion is Version, as the server says it.
func (c *Client) askVersion(ctx context.Context, endpoint int) (string, error) {
	if describe := c.dialect.Describe; describe != nil {
		if _, version, err := describe(ctx, c.server(endpoint)); version != "" || !refused(err) {
			return version, err
		}
	}
	var answer struct {
		Version string `json:"version"`
	}
	s := c.server(endpoint)
	err := s.Get(ctx, "/version", &answer)
	if statusOf(err) == http.StatusNotFound {
		err = s.Get(ctx, "/get_server_info", &answer)
	}
	return answer.Version, err
}

// Tokenize asks an endpoint how many tokens a text has as a prompt of completions: first in its API's own way, if there
// is one, then by POST /tokenize (vLLM, SGLang; llama.cpp's server takes the text as content). It blocks for at most
// 20 s.
func (c *Client) Tokenize(ctx context.Context, endpoint int, text string) (api.Tokens, error) {
	if count := c.dialect.Count; count != nil {
		if t, err := count(ctx, c.server(endpoint), text, false); !refused(err) {
			return t, err
		}
	}
	if !c.content.Load() {
		t, err := c.tokenize(ctx, endpoint, map[string]any{"model": c.model, "prompt": text})
		if err != nil || t.Count > 0 {
			return t, err
		}
		c.content.Store(true)
	}
	return c.tokenize(ctx, endpoint, map[string]any{"content": text, "add_special": true})
}

// templateFields are the fields of a chat's body that affect its chat template.
var templateFields = []string{"add_generation_prompt", "add_special_tokens", "chat_template", "chat_template_kwargs",
	"continue_final_message", "tools"}

// TokenizeChat asks an endpoint how many tokens a chat with one user message has, including those that the chat
// template adds: POST /tokenize, as vLLM has it. Servers that take no messages there answer with an error. It blocks
// for at most 10 s.
func (c *Client) TokenizeChat(ctx context.Context, endpoint int, text string) (api.Tokens, error) {
	if count := c.dialect.Count; count != nil {
		if t, err := count(ctx, c.server(endpoint), text, true); !refused(err) {
			return t, err
		}
	}
	body := map[string]any{"model": c.model, "messages": api.ChatOf(text)}
	for _, name := range templateFields {
		if value, ok := c.config.Body[name]; ok {
			body[name] = value
		}
	}
	t, err := c.tokenize(ctx, endpoint, body)
	if err == nil && t.Count == 0 {
		err = c.unusable("/tokenize", "a message has no tokens")
	}
	return t, err
}

// tokenize returns 0 tokens if the server does not know the field that has the text.
func (c *Client) tokenize(ctx context.Context, endpoint int, fields map[string]any) (api.Tokens, error) {
	var answer struct {
		Count   *uint64           `json:"count"`
		Longest json.Number       `json:"max_model_len"`
		Tokens  []json.RawMessage `json:"tokens"`
	}
	if err := c.server(endpoint).Post(ctx, "/tokenize", fields, &answer); err != nil {
		return api.Tokens{}, err
	}
	t := api.Tokens{Count: uint64(len(answer.Tokens)), MaxModelTokens: api.TokenLimit(answer.Longest)}
	switch {
	case answer.Count != nil:
		t.Count = *answer.Count
	case answer.Tokens == nil:
		return api.Tokens{}, c.unusable("/tokenize", "the answer has neither count nor tokens")
	}
	return t, nil
}

// Measure asks an endpoint for one output token and returns how many tokens the endpoint counted in the prompt: those
// of the text and those that the server adds. The request has those of the plan's fields that can change the prompt. A
// server that refuses to answer in one piece is asked for a stream, if the plan's requests ask for streams. Measure
// blocks for at most 10 s.
func (c *Client) Measure(ctx context.Context, endpoint int, text string) (uint64, error) {
	path := c.endpoints[endpoint].Path
	encoded, err := c.promptOf(text)
	if err != nil {
		return 0, c.unusable(path, err.Error())
	}
	prompt := func(dst []byte) []byte { return append(dst, encoded...) }
	body := c.countBody.Append(nil, 1, prompt, c.dialect.Rewrite)
	if c.dialect.WholePath != "" || c.dialect.DescribedBody() {
		return c.measureStream(ctx, endpoint, body)
	}
	if c.streams.Load() {
		return c.measureStreamed(ctx, endpoint, prompt)
	}
	var answer json.RawMessage
	if err := c.call(ctx, c.endpoints[endpoint], body, &answer); err != nil {
		if !Refused(err) || !c.dialect.StreamField() || c.config.Whole {
			return 0, err
		}
		n, failed := c.measureStreamed(ctx, endpoint, prompt)
		if failed != nil {
			return 0, err
		}
		c.streams.Store(true)
		return n, nil
	}
	var f api.Frame
	if err := c.dialect.Parse(api.Event{Data: answer}, &f); err != nil {
		return 0, c.unusable(path, "the answer does not match this API: "+err.Error())
	}
	if f.Failed {
		return 0, c.unusable(path, f.Fault)
	}
	return c.promptCount(path, f.Input)
}

// measureStreamed is Measure of a server that only streams.
func (c *Client) measureStreamed(ctx context.Context, endpoint int, prompt func([]byte) []byte) (uint64, error) {
	fields := c.dialect.CountFields(c.config.Body)
	delete(fields, "stream")
	body, err := bodies.New(c.dialect, c.model, fields, bodies.Options{})
	if err != nil {
		return 0, c.unusable(c.endpoints[endpoint].Path, err.Error())
	}
	return c.measureStream(ctx, endpoint, body.Append(nil, 1, prompt, c.dialect.Rewrite))
}

// promptOf returns a text as the prompt of a request: the only message of a chat, or the text itself.
func (c *Client) promptOf(text string) ([]byte, error) {
	if c.dialect.Prompt.Form == workload.Messages {
		return json.Marshal(api.ChatOf(text))
	}
	return json.Marshal(text)
}

// measureStream implements Measure for an API whose path only streams.
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
			c.endpoints[endpoint].Path + ": no answer in time"}
	}
	return c.promptCount(c.endpoints[endpoint].Path, 0)
}

// promptCount returns the count of a prompt's tokens that a path answered with, or an error if there is none.
func (c *Client) promptCount(path string, tokens uint64) (uint64, error) {
	if tokens == 0 {
		return 0, c.unusable(path, "the answer does not match this API: no usage with prompt tokens")
	}
	return tokens, nil
}

// unusable returns the error for an answer that lacks what was asked for.
func (c *Client) unusable(path, message string) *Error {
	return &Error{Class: spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME,
		Message: c.secrets.Clean("POST " + path + ": " + message)}
}

// refused reports whether a server answered with an error, such as for an unknown path.
func refused(err error) bool { return statusOf(err) != 0 }
