package delivery

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spate-load/spate/internal/words"
)

// Endpoint is a URL that requests are posted to. It may be used concurrently.
type Endpoint struct {
	kind, url string
	header    http.Header
	client    *http.Client
}

// NewEndpoint returns an endpoint of a kind of database. Each request has the header. verify and timeout are those of
// NewClient. The caller must call Close.
func NewEndpoint(kind, url string, header http.Header, verify *tls.Config, timeout time.Duration) *Endpoint {
	return &Endpoint{kind: kind, url: url, header: header, client: NewClient(verify, cmp.Or(timeout, DefaultTimeout))}
}

// Post posts a body, and returns the status and the first 64 KiB of the answer. An error says that there was no answer,
// or that it was a redirect.
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
	said, err = io.ReadAll(answer.Body) // The client limits it.
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return 0, nil, Unreachable(e.kind, e.url, err)
	}
	return answer.StatusCode, said, nil
}

// Close closes idle connections.
func (e *Endpoint) Close() { e.client.CloseIdleConnections() }

// Excerpt returns the start of an answer as one line of text.
func Excerpt(said []byte) string {
	const longest = 1 << 10
	text := words.Printable(string(bytes.ToValidUTF8(said[:min(len(said), longest)], nil)))
	return strings.Join(strings.Fields(text), " ")
}
