package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spate-load/spate/agent/stream/secrets"
	"github.com/spate-load/spate/agent/stream/wire"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
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
	prefix := strings.TrimSuffix(strings.TrimSuffix(u.RawPath, a.PathFor(c.model)), a.Version)
	if rest, versioned := strings.CutPrefix(path, a.Version); versioned {
		path = a.VersionFor(prefix) + rest
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
	if err := c.signed(q, body); err != nil {
		return c.callFailed(q, spatev1.ErrorClass_ERROR_CLASS_CONNECT, err)
	}
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
	response, err := c.send(ctx, q, untimedUser{})
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
	return fmt.Sprintf(": %.*s", 8*secrets.MessageLimit, bytes.TrimSpace(data))
}

// callRequest returns the request of a call.
func (c *Client) callRequest(u *url.URL, headers http.Header, body []byte) *wire.Outgoing {
	q := &wire.Outgoing{Method: http.MethodGet, URL: u, Host: c.host, Headers: headers, Lines: wire.LinesOf(headers)}
	if body != nil {
		q.Method, q.Body, q.Length = http.MethodPost, io.NopCloser(bytes.NewReader(body)), len(body)
	}
	return q
}

// untimedUser is the wire.User of calls. It discards what its connection records. The connection counts as used
// afterwards, so the first timed request on it does not count as having opened it.
type untimedUser struct{}

// GotConn implements wire.User.
func (untimedUser) GotConn(c *wire.Conn, _ bool) *wire.RequestIO {
	w := new(wire.RequestIO)
	c.StartRequest(w)
	c.EndRequest(w)
	return w
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
