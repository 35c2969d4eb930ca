package delivery

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultTimeout bounds one request: far above the 3 to 25 ms that a thousand points take, and short enough to notice a
// server that hangs.
const DefaultTimeout = 10 * time.Second

// CheckURL returns an error if a server's URL, such as example, is not valid. The error does not contain a URL that may
// hold a password.
func CheckURL(text, example string) error {
	if text == "" {
		return fmt.Errorf("no URL: give the server's, such as %s", example)
	}
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("the URL cannot be parsed: give one such as %s", example)
	}
	if u.User != nil {
		return errors.New("the URL holds a user: give it as the token, \"user:password\", by reference")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("URL %q: give one such as %s", text, example)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("URL %q: leave out what follows the path", text)
	}
	return nil
}

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
		return fmt.Errorf("%s: the certificate of %s is signed by an unknown authority: give the authority's certificate (--%s-ca) (%w)",
			kind, serverURL, kind, err)
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
	return fmt.Errorf("%s: %s cannot be reached: is the server up and the URL right? (%w)", kind, serverURL, err)
}
