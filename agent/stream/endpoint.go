package stream

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/spate-load/spate/api"
)

// endpointOf parses a base URL and adds the API's path for a model, unless the URL ends in it. A version (/v1, /v2) at
// the end of the URL is replaced by the path.
func endpointOf(base string, a *api.API, model string) (*url.URL, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, errors.New("not a valid URL") // url.Parse's own error would show a password
	}
	switch {
	case u.User != nil:
		return nil, fmt.Errorf("%s contains a password: send it as a header instead", u.Redacted())
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%s does not start with http:// or https://", u)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%s has no host", u)
	}
	prefix := strings.TrimRight(u.EscapedPath(), "/")
	path := a.PathFor(model)
	prefix = strings.TrimSuffix(prefix, path)
	for _, version := range []string{"/v1", "/v2"} {
		prefix = strings.TrimSuffix(prefix, version)
	}
	path = a.VersionFor(prefix) + path
	u.Fragment = ""
	if a.Query != "" {
		u.RawQuery = a.Query
	}
	if u.Path, err = url.PathUnescape(prefix + path); err != nil {
		return nil, fmt.Errorf("%s has an invalid path", u)
	}
	u.RawPath = prefix + path
	return u, nil
}

// headersOf returns the headers of every request, and the Host header if the plan sets one. signed: requests carry a
// signature instead of the key. endpoint is the first one.
func headersOf(c Config, a *api.API, endpoint *url.URL, signed bool) (h http.Header, host string, err error) {
	h = http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"text/event-stream"},
		"User-Agent":   {"spate"},
	}
	if !httpguts.ValidHeaderFieldValue(c.APIKey) {
		return nil, "", errors.New("the API key contains a line break or another control character: remove it")
	}
	if a.Whole {
		h.Set("Accept", "application/json")
	}
	for name, value := range a.Headers {
		h.Set(name, value)
	}
	if !signed {
		a.SetKey(h, c.APIKey, endpoint)
	}
	for name, value := range c.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, "", fmt.Errorf("header %q: the name or value contains a character not allowed in headers", name)
		}
		if strings.EqualFold(name, "Host") {
			host = value
			continue
		}
		h[http.CanonicalHeaderKey(name)] = []string{value}
	}
	return h, host, nil
}
