package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

// Client sends requests to one target. It is safe for concurrent use.
type Client struct {
	dialect   dialect
	endpoints []*url.URL
	headers   http.Header
	host      string
	body      template
	probe     template // body of a request that is counted, not timed
	model     string   // name that bodies say, after the plan's fields
	extra     map[string]any
	secrets   secrets
	timeout   time.Duration
	dialer    *dialer
	transport *http.Transport
}

// Sizes of the Transport's buffers of a connection. They are small because a stream's frames are, because the head of a request is all that
// is gathered for a write, and because there can be 20,000 streams.
const (
	readBuffer  = 2 << 10
	writeBuffer = 1 << 10
)

// New makes a client. It opens no connection. Errors name what is wrong with the Config. The caller closes the client.
func New(config Config) (*Client, error) {
	return newClient(config, &tls.Config{})
}

func newClient(config Config, base *tls.Config) (*Client, error) {
	d, err := dialectOf(config.API, config.Prompts)
	if err != nil {
		return nil, err
	}
	c := &Client{dialect: d, secrets: secretsOf(config), timeout: orDefault(config.RequestTimeout, defaultRequestTimeout)}
	if len(config.Endpoints) == 0 {
		return nil, errors.New("no endpoint: give at least one URL")
	}
	for i, base := range config.Endpoints {
		u, err := endpointOf(base, d.path())
		if err != nil {
			return nil, fmt.Errorf("endpoint %d: %w", i, err)
		}
		c.endpoints = append(c.endpoints, u)
	}
	if c.headers, c.host, err = headersOf(config); err != nil {
		return nil, err
	}
	if err := c.writeBodies(config); err != nil {
		return nil, err
	}
	base.NextProtos = []string{"http/1.1"}
	c.dialer = newDialer(orDefault(config.ConnectTimeout, defaultConnectTimeout), base)
	c.transport = newTransport(c.dialer)
	return c, nil
}

// writeBodies encodes what is the same in all bodies.
func (c *Client) writeBodies(config Config) (err error) {
	c.model, c.extra = config.Model, config.Body
	if name, ok := config.Body["model"].(string); ok {
		c.model = name
	}
	if c.body, err = newTemplate(c.dialect, config.Model, config.Body, config.ExactOutput); err != nil {
		return err
	}
	c.probe, err = newTemplate(c.dialect, config.Model, probeFields(config.Body), false)
	return err
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// newTransport speaks HTTP/1.1 only: streams that share a connection would share its stamps and its losses. It keeps every
// connection that the server keeps.
func newTransport(d *dialer) *http.Transport {
	return &http.Transport{
		DialContext:         d.plain,
		DialTLSContext:      d.secure,
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
		DisableCompression:  true,
		MaxIdleConnsPerHost: math.MaxInt,
		WriteBufferSize:     writeBuffer,
		ReadBufferSize:      readBuffer,
	}
}

// Close closes all connections and waits until no more are being opened. Requests that are still under way fail.
func (c *Client) Close() {
	c.transport.CloseIdleConnections()
	c.dialer.close()
}

// Form returns how prompts are written: Messages for the chat API, TokenIDs or Text for completions.
func (c *Client) Form() workload.Form { return c.dialect.form() }

// AppendBody appends the body of a request that asks for osl output tokens. prompt appends the prompt's JSON value, in the client's
// Form.
func (c *Client) AppendBody(dst []byte, osl uint32, prompt func(dst []byte) []byte) []byte {
	return c.body.append(dst, osl, prompt)
}

// Check connects to an endpoint, TLS included, and hangs up. Nil: somebody is there. It blocks no longer than the connect
// timeout.
func (c *Client) Check(ctx context.Context, endpoint int) *Error {
	u := c.endpoints[endpoint]
	conn, err := c.dialer.dial(ctx, dialAddress(u), u.Scheme == "https")
	if err == nil {
		conn.Close()
		return nil
	}
	e := &Error{Class: spatev1.ErrorClass_ERROR_CLASS_CONNECT, Message: c.secrets.clean(err.Error())}
	if known, ok := errors.AsType[*dialError](err); ok {
		e.Class = known.class
	}
	return e
}
