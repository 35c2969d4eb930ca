package stream

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/api/bodies"
	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/content"
)

// Client sends requests to one target. It is safe for concurrent use.
type Client struct {
	dialect   *bodies.Dialect
	endpoints []*url.URL
	headers   http.Header
	traced    bool   // requests get a traceparent
	lines     []byte // the headers in HTTP/1.1's wire form
	host      string
	bodies    []bodies.Body // by variant of requests
	countBody bodies.Body   // body of a request whose tokens are counted; it is not timed
	model     string        // model name in bodies, after the plan's fields
	config    Config
	streams   atomic.Bool // the server refuses to answer in one piece
	content   atomic.Bool // its /tokenize takes the text in this field
	secrets   secrets
	timeout   time.Duration
	patience  patience
	maxOutput int     // frames; 0: derived from the tokens asked for
	memory    *Memory // nil: not bounded
	models    models  // that answers named
	pool      *wire.Pool
	// pool.RoundTrip; tests replace it
	send func(ctx context.Context, q *wire.Outgoing, user wire.User) (*http.Response, error)
}

// New returns a client for a target. It opens no connection. Errors name what is wrong with the Config. The caller
// closes the client.
func New(config Config) (*Client, error) {
	d, err := dialectOf(config)
	if err != nil {
		return nil, err
	}
	c := &Client{dialect: d, model: modelOf(config), config: config,
		secrets:  secretsOf(config.APIKey, config.Connection.ProxyAuth, config.Headers),
		timeout:  cmp.Or(max(0, config.RequestTimeout), defaultRequestTimeout),
		patience: patience{first: config.FirstTokenTimeout, gap: config.GapTimeout}}
	c.maxOutput, c.memory = config.MaxOutput, config.Memory
	if len(config.Endpoints) == 0 {
		return nil, errors.New("no endpoint: give at least one URL")
	}
	for i, base := range config.Endpoints {
		u, err := endpointOf(base, d.API, c.model)
		if err != nil {
			return nil, fmt.Errorf("endpoint %d: %w", i, err)
		}
		c.endpoints = append(c.endpoints, u)
	}
	if c.headers, c.host, err = headersOf(config, d.API, c.endpoints[0]); err != nil {
		return nil, err
	}
	c.lines, c.traced = wire.LinesOf(c.headers), measure.Traced(config.Headers)
	if err := c.writeBodies(config); err != nil {
		return nil, err
	}
	connectTimeout := cmp.Or(max(0, config.ConnectTimeout), defaultConnectTimeout)
	if c.pool, err = wire.NewPool(&config.Connection, connectTimeout, &tls.Config{}); err != nil {
		return nil, err
	}
	c.send = c.pool.RoundTrip
	return c, nil
}

// dialectOf returns the dialect of a target.
func dialectOf(c Config) (*bodies.Dialect, error) {
	if c.API == registry.TemplateName {
		return bodies.Of(registry.OfTemplate(c.Template), c.Prompts, c.Whole)
	}
	return bodies.DialectOf(c.API, c.Prompts, c.Whole)
}

// writeBodies encodes the parts that all bodies share.
func (c *Client) writeBodies(config Config) (err error) {
	if config.Variants == nil {
		config.Variants = []content.Variant{{}}
	}
	for _, v := range config.Variants {
		body, err := bodies.New(c.dialect, cmp.Or(v.Model, config.Model), v.Over(config.Body),
			bodies.Options{Exact: config.ExactOutput, Running: config.RunningUsage})
		if err != nil {
			return err
		}
		c.bodies = append(c.bodies, body)
	}
	c.countBody, err = bodies.New(c.dialect, config.Model, c.dialect.CountFields(config.Body), bodies.Options{})
	return err
}

// LeaveOut leaves fields out of the bodies of all requests from then on, as a plan's body does that has them as null.
// It must not be called while there is load.
func (c *Client) LeaveOut(names []string) error {
	config := c.config
	config.Body = map[string]any{}
	maps.Copy(config.Body, c.config.Body)
	for _, name := range names {
		config.Body[name] = nil
	}
	c.config, c.bodies = config, nil
	return c.writeBodies(config)
}

// modelOf returns the model that requests ask for.
func modelOf(c Config) string {
	if name, ok := c.Body["model"].(string); ok {
		return name
	}
	return c.Model
}

// Close closes all connections and blocks until no connection is being opened. Requests in flight fail.
func (c *Client) Close() { c.pool.Close() }

// Preconnect opens a connection to an endpoint, through the proxy and with TLS if configured, and leaves it idle for a
// later request. It does nothing if each request opens a connection. The first request on the connection reports how
// long opening it took (Observation.Connected), as if it had opened it. After an error there is no additional
// connection; a later request opens its own, and reports what is wrong.
//
// Preconnect blocks until the connection is open, for at most the connect timeout. It is safe for concurrent use. With
// TLS 1.3, requests can use the connection only 60 ms plus two round trips later.
func (c *Client) Preconnect(ctx context.Context, endpoint int) error {
	return c.pool.Preconnect(ctx, c.endpoints[endpoint])
}

// Form returns the form of prompts: Messages for chats, TokenIDs or Text for the other APIs.
func (c *Client) Form() workload.Form { return c.dialect.Prompt.Form }

// Lengths sets the lengths of prompt and output that a request does not ask for to 0.
func (c *Client) Lengths(isl, osl *uint32) {
	if c.dialect.Cuts {
		*isl = 0
	}
	if c.dialect.NoOutput {
		*osl = 0
	}
}

// AppendBody appends the body of a request that asks for osl output tokens. prompt appends the prompt's JSON value, in
// the client's Form.
func (c *Client) AppendBody(dst []byte, osl uint32, prompt func(dst []byte) []byte) []byte {
	return c.AppendVariant(dst, 0, osl, prompt)
}

// AppendVariant is AppendBody for the variant with an index in Config.Variants.
func (c *Client) AppendVariant(dst []byte, variant int, osl uint32, prompt func(dst []byte) []byte) []byte {
	return c.bodies[variant].Append(dst, osl, prompt, c.dialect.Rewrite)
}

// HoldsSecret reports whether a text contains one of the client's secrets, or a piece that would be masked in a
// message. It is safe for concurrent use. A nil Client has no secrets.
func (c *Client) HoldsSecret(text string) bool { return c != nil && c.secrets.Held(text) }

// Check connects to an endpoint, TLS included, and disconnects. Nil: the endpoint accepts connections, and speaks
// HTTP/2 if Config asks for it. For requests that go to a proxy in absolute form, nil means that the proxy accepts
// connections. Otherwise the error is an *Error, or ctx's error if ctx has ended. Check blocks for at most the connect
// timeout, twice that for HTTP/2.
func (c *Client) Check(ctx context.Context, endpoint int) error {
	err := c.pool.Check(ctx, c.endpoints[endpoint])
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	e := &Error{Class: spatev1.ErrorClass_ERROR_CLASS_CONNECT, Message: c.secrets.Clean(err.Error())}
	if known, ok := errors.AsType[*wire.DialError](err); ok {
		e.Class = known.Class
	}
	return e
}
