package wire

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/spate-load/spate/agent/stream/socket"
)

var (
	errOnlyHTTP2 = errors.New(`the endpoint speaks only HTTP/2: set connection: {http: "2"}`)
	errNoHTTP2   = errors.New(`the endpoint does not speak HTTP/2: remove connection.http, or set it to "1.1"`)
	// Some servers without HTTP/2 close the connection at once.
	errNoneInHTTP2 = errors.New("the endpoint ended the connection without an answer in HTTP/2: if it speaks only " +
		`HTTP/1.1, remove connection.http, or set it to "1.1"`)
)

// withAdvice adds to a connection error what to do about it, if that is known. name is the name that the certificate
// was verified for.
func withAdvice(err error, name string) error {
	what := adviceFor(err, name)
	if what == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, what)
}

func adviceFor(err error, name string) string {
	var plain tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var other x509.HostnameError
	switch {
	case errors.As(err, &plain), errors.Is(err, io.EOF):
		return "the server may speak plain HTTP: check whether the endpoint's URL must start with http://"
	case errors.As(err, &unknown):
		return "set connection.ca to the authority's certificate, or install that certificate on the agent's machine"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew the certificate, and check the agent's clock"
	case errors.As(err, &other):
		return fmt.Sprintf("if this is the right server, set connection.server_name to a name in its certificate "+
			"instead of %s", name)
	case socket.NoPort(err):
		return "no local port is free, or a source address does not belong to this machine: give the agent more " +
			"source addresses, widen net.ipv4.ip_local_port_range, or keep connections open"
	}
	return alertAdvice(err)
}

// alertAdvice returns what to do about a TLS alert of the peer. It goes by the text: crypto/tls exports no type for
// received alerts.
func alertAdvice(err error) string {
	if !isAlert(err) {
		return ""
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "certificate required"), strings.Contains(text, "handshake failure"):
		return "the server may require a client certificate: set connection.certificate and connection.key"
	case strings.Contains(text, "unknown certificate authority"), strings.Contains(text, "bad certificate"):
		return "the server rejected the client certificate: use a connection.certificate that is signed by an " +
			"authority that the server trusts"
	}
	return ""
}

// refusedProtocol reports whether the peer speaks none of the offered versions of HTTP.
func refusedProtocol(err error) bool {
	return isAlert(err) && strings.Contains(err.Error(), "no application protocol")
}

// isAlert reports whether an error is a TLS alert of the peer.
func isAlert(err error) bool {
	operation, ok := errors.AsType[*net.OpError](err)
	return ok && operation.Op == "remote error"
}

// Start of an answer in the other version of HTTP. HTTP/2 starts with a SETTINGS frame, whose length is a multiple of 6
// and whose stream is 0 (RFC 9113, 6.5). HTTP/1.1 starts with a status line.
func beginsHTTP2(p []byte) bool {
	return len(p) >= frameHead && p[0] == 0 && p[1] == 0 && p[2]%6 == 0 && p[3] == frameSettings && p[4] == 0 &&
		bytes.Equal(p[5:9], make([]byte, 4))
}

func beginsHTTP1(p []byte) bool { return bytes.HasPrefix(p, []byte("HTTP/1.")) }
