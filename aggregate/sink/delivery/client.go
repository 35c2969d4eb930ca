package delivery

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// maxAnswer bounds how much of an answer is read, in bytes, after it was decompressed.
const maxAnswer = 1 << 16

// NewClient returns the HTTP client by which all sinks talk to databases. It reads the first 64 KiB of an answer, after
// decompression, and no more; it does not follow redirects, which would take the token elsewhere; and secrets that a
// server repeats in its answer are masked, so that no message or log line has them. verify says how the certificate of
// an https server is verified; nil: by the machine's authorities. timeout bounds one request; 0: only its context does.
// The caller must call CloseIdleConnections.
func NewClient(verify *tls.Config, timeout time.Duration) *http.Client {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: verify, ForceAttemptHTTP2: true,
		MaxResponseHeaderBytes: maxAnswer}
	return &http.Client{Transport: guarded{transport}, Timeout: timeout}
}

// guarded makes answers short, final and without secrets.
type guarded struct{ *http.Transport }

// errRedirect says that a server redirects.
var errRedirect = errors.New("it redirects")

// RoundTrip sends a request and returns its answer, whose body is in memory. A redirect is an error.
func (g guarded) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := g.Transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	said, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return nil, err
	}
	if to, err := answer.Location(); err == nil && answer.StatusCode/100 == 3 {
		return nil, fmt.Errorf("%w to %s: give that URL (%d)", errRedirect, masked(request, []byte(to.Redacted())),
			answer.StatusCode)
	}
	said = masked(request, said)
	for _, values := range answer.Header {
		for i := range values {
			values[i] = string(masked(request, []byte(values[i])))
		}
	}
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(said)), int64(len(said))
	return answer, nil
}

// masked replaces the secrets of a request in what its answer says.
func masked(request *http.Request, said []byte) []byte {
	for _, secret := range secrets(request.Header) {
		encoded := base64.StdEncoding.EncodeToString([]byte(secret))
		for _, form := range []string{secret, url.QueryEscape(secret), encoded} {
			said = bytes.ReplaceAll(said, []byte(form), []byte("***"))
		}
	}
	return said
}

// plain are the headers of requests that hold no secret.
var plain = []string{"Accept", "Accept-Encoding", "Content-Encoding", "Content-Type", "User-Agent"}

// secrets returns the values of headers that may be secrets, longest first: a header's value, what follows its scheme,
// and the password of Basic.
func secrets(header http.Header) (all []string) {
	for name, values := range header {
		if slices.Contains(plain, name) {
			continue
		}
		for _, value := range values {
			all = append(all, value)
			scheme, rest, _ := strings.Cut(value, " ")
			all = append(all, rest)
			if pair, err := base64.StdEncoding.DecodeString(rest); err == nil && scheme == "Basic" {
				_, password, _ := strings.Cut(string(pair), ":")
				all = append(all, string(pair), password)
			}
		}
	}
	const shortest = 4 // A shorter text is in any answer.
	all = slices.DeleteFunc(all, func(s string) bool { return len(s) < shortest })
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}
