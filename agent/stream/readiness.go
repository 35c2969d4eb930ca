package stream

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Ready returns nil if an endpoint is ready for requests, and else an *Error with what it answers. With a path in r,
// the answer's status decides; else a short request does, which generates one token. If r is nil, an endpoint that
// lists its models is taken as ready, and the request is only sent to others; one that refuses the key is not ready.
// Ready blocks for as long as ctx lets it; if ctx ends, that says nothing about the endpoint.
func (c *Client) Ready(ctx context.Context, endpoint int, r *spatev1.Ready) error {
	if err := c.Check(ctx, endpoint); err != nil {
		return err
	}
	if path := r.GetPath(); path != "" {
		return c.answers(ctx, endpoint, path, int(cmp.Or(r.GetStatus(), http.StatusOK)))
	}
	if r == nil {
		if _, err := c.Models(ctx, endpoint); !notReady(err) && !refusesKey(err) {
			return nil
		}
	}
	prompt, err := c.promptOf("ready")
	if err != nil {
		return c.unusable(c.endpoints[endpoint].Path, err.Error())
	}
	body := c.AppendBody(nil, 1, func(dst []byte) []byte { return append(dst, prompt...) })
	q := c.callRequest(c.endpoints[endpoint], c.headers.Clone(), body)
	if err := c.signed(q, body); err != nil {
		return nil //nolint:nilerr // the endpoint is not the reason
	}
	_, _, err = c.exchange(ctx, q)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case notReady(err), r == nil && refusesKey(err):
		return err
	}
	return nil
}

// refusesKey reports whether a call failed for want of the right key, for which waiting does not help.
func refusesKey(err error) bool { return statusOf(err) == http.StatusUnauthorized }

// answers returns an error if an endpoint answers a GET with another status.
func (c *Client) answers(ctx context.Context, endpoint int, path string, status int) error {
	q := c.callRequest(c.at(endpoint, path), c.headers.Clone(), nil)
	_, _, err := c.fetch(ctx, q)
	switch got := statusOf(err); {
	case err == nil && status == http.StatusOK, got != 0 && got == status:
		return nil
	case err == nil:
		return c.callFailed(q, spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS, fmt.Errorf("200 OK, want %d", status))
	}
	return err
}

// notReady reports whether a call failed as it does if there is no server yet, only a proxy in front of it, or a server
// that does not serve this API or model.
func notReady(err error) bool {
	status := statusOf(err)
	return Unanswered(err) || status >= http.StatusInternalServerError || status == http.StatusNotFound ||
		status == http.StatusMethodNotAllowed
}
