package naming

import (
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// hostAndPort matches an endpoint without a scheme.
var hostAndPort = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9a-fA-F:.]+\]):[0-9]+(/|$)`)

// BaseURL returns an endpoint as stages have it: with a scheme, and without the path that Spate adds. The URLs that
// engines print, and that OpenAI's own clients take, end in /v1.
func BaseURL(endpoint string) string {
	if hostAndPort.MatchString(endpoint) {
		endpoint = "http://" + endpoint
	}
	return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(endpoint, "/"), "/v1"), "/")
}

// ValidPort reports whether a URL has a port from 1 to 65535, or none.
func ValidPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && port > 0
}

// Hostname returns the host of a URL without its port, or "" if the address is not a URL.
func Hostname(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// Server returns the host and port of a URL, by which two addresses of one server are known: in lowercase, and with the
// scheme's port if the URL has none. It returns "" if the address is not a URL.
func Server(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// Redacted returns a URL with its password replaced by xxxxx.
func Redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address
	}
	return u.Redacted()
}
