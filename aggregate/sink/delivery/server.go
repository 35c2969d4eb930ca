package delivery

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spate-load/spate/internal/words"
)

// DefaultTimeout bounds one request: far above the 3 to 25 ms that a thousand points take, and short enough to notice a
// server that hangs.
const DefaultTimeout = 10 * time.Second

// CheckToken returns an error if a token cannot be sent in a header.
func CheckToken(token string) error {
	if strings.ContainsAny(token, "\r\n") {
		return errors.New("the token contains a line break: remove it")
	}
	return nil
}

// Authorization returns the Authorization header for a token, or "" for none. A token with a scheme is the header
// itself, user:password uses Basic, and any other token uses the given scheme.
func Authorization(token, scheme string) string {
	for _, known := range []string{"Bearer ", "Basic ", "Token "} {
		if strings.HasPrefix(token, known) {
			return token
		}
	}
	switch {
	case token == "":
		return ""
	case strings.Contains(token, ":"):
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(token))
	}
	return scheme + " " + token
}

// Unreachable returns an error that says what a person can do if a server at a URL did not answer.
func Unreachable(kind, serverURL string, err error) error {
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return fmt.Errorf("%s: the certificate of %s is signed by an unknown authority: give the authority's certificate (ca=FILE in the URL of --sink) (%w)",
			kind, serverURL, err)
	case errors.As(err, new(x509.HostnameError)):
		return fmt.Errorf("%s: the certificate of %s is for another name: use a URL with a name that is in it (%w)",
			kind, serverURL, err)
	case errors.As(err, new(x509.CertificateInvalidError)):
		return fmt.Errorf("%s: the certificate of %s is not valid: renew it, or set this machine's clock (%w)",
			kind, serverURL, err)
	case errors.Is(err, errRedirect):
		return fmt.Errorf("%s: %s does not take points: %w", kind, serverURL, err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s: %s does not speak TLS: is its URL http://? (%w)", kind, serverURL, err)
	}
	if broken, ok := errors.AsType[*net.OpError](err); ok && broken.Op != "dial" && strings.HasPrefix(serverURL, "http://") {
		return fmt.Errorf("%s: %s closes the connection: is its URL https://? (%w)", kind, serverURL, causeOf(err))
	}
	return fmt.Errorf("%s: %s cannot be reached: is the server up and the URL right? (%w)", kind, serverURL, causeOf(err))
}

// causeOf returns why a request had no answer, without the names of Go's functions and the request's URL: so a failure
// has the same words whatever was asked.
func causeOf(err error) error {
	var number syscall.Errno
	var request *url.Error
	switch {
	case errors.As(err, &number):
		return number
	case errors.Is(err, context.DeadlineExceeded):
		return errSlow
	case errors.As(err, &request):
		return request.Err
	}
	return err
}

// errSlow says that a server did not answer before the time-out.
var errSlow = errors.New("no answer in time")

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

// Excerpt returns the start of an answer as one line of text.
func Excerpt(said []byte) string {
	const longest = 1 << 10
	text := words.Printable(string(bytes.ToValidUTF8(said[:min(len(said), longest)], nil)))
	return strings.Join(strings.Fields(text), " ")
}
