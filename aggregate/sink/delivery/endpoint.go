package delivery

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// maxAnswer bounds how much of an answer is read, in bytes.
const maxAnswer = 1 << 16

// Endpoint is a URL that requests are posted to. It may be used concurrently.
type Endpoint struct {
	kind, url string
	header    http.Header
	client    *http.Client
}

// NewEndpoint returns an endpoint of a kind of database. Each request has the header. verify says how the certificate
// of an https server is verified; nil: by the machine's authorities. timeout bounds one request; 0: DefaultTimeout. The
// caller must call Close.
func NewEndpoint(kind, url string, header http.Header, verify *tls.Config, timeout time.Duration) *Endpoint {
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: verify, ForceAttemptHTTP2: true}
	client := &http.Client{Transport: transport, Timeout: timeout, CheckRedirect: noRedirects}
	return &Endpoint{kind: kind, url: url, header: header, client: client}
}

// noRedirects keeps requests from being redirected: they would lose their bodies, or take the token elsewhere.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Post posts a body, and returns the status and the first 64 KiB of the answer. An error says that there was no answer.
func (e *Endpoint) Post(ctx context.Context, body []byte) (status int, said []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header = e.header.Clone()
	request.Header.Set("User-Agent", "spate")
	answer, err := e.client.Do(request)
	if err != nil {
		return 0, nil, Unreachable(e.kind, e.url, err)
	}
	said, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return 0, nil, Unreachable(e.kind, e.url, err)
	}
	if to, err := answer.Location(); err == nil {
		return 0, nil, fmt.Errorf("%s: %s redirects to %s: give that URL (%d)", e.kind, e.url, to.Redacted(),
			answer.StatusCode)
	}
	return answer.StatusCode, said, nil
}

// Close closes idle connections.
func (e *Endpoint) Close() { e.client.CloseIdleConnections() }

// Excerpt returns the start of an answer as one line of text.
func Excerpt(said []byte) string {
	const longest = 1 << 10
	return string(bytes.Join(bytes.Fields(bytes.ToValidUTF8(said[:min(len(said), longest)], nil)), []byte(" ")))
}
