package stream

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/spate-load/spate/agent/allow"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Connection configures how connections to a target are opened and kept. Its zero value: kept open, HTTP/1.1, no proxy,
// the system's certificate authorities.
type Connection struct {
	// Each request opens a connection and closes it, instead of reusing an idle one.
	New bool
	// Speak HTTP/2, with and without TLS. A connection still carries one request at a time.
	HTTP2 bool
	// HTTP proxy for all requests: http://host:port. HTTP/1.1 requests to http:// endpoints go to the proxy in absolute
	// form, all others through a CONNECT tunnel. Empty: no proxy, even if the environment names one.
	Proxy string
	// "user:password" for the proxy. Empty: none is sent.
	ProxyAuth string
	// Certificates of the authorities that endpoints' certificates are verified against, in PEM. Empty: the system's.
	CA string
	// Client certificate with its chain, and its key, both in PEM. Empty: none.
	Certificate, Key string
	// Name that TLS asks for and verifies. Empty: the endpoint's host.
	ServerName string
	// Accept any certificate of an endpoint. Anyone between agent and endpoint can then read the API key.
	InsecureSkipVerify bool
	// Local addresses that connections are made from, in turn. Each adds its own range of ports. Empty: the system
	// picks.
	Sources []netip.Addr
	// Pins are the addresses of hosts whose names must not be looked up again. Names of other hosts are looked up.
	Pins allow.Pins
}

// ConnectionOf returns the connections that a plan asks for. reveal returns the secret that a reference stands for, or
// "" for an empty reference. Its error is returned with the field's name.
func ConnectionOf(c *spatev1.Connection, reveal func(reference string) (string, error)) (Connection, error) {
	connection := Connection{
		New: c.GetReuse() == "new", HTTP2: c.GetHttp() == "2", Proxy: c.GetProxy(), ServerName: c.GetServerName(),
		InsecureSkipVerify: c.GetInsecureSkipVerify(),
	}
	for _, field := range []struct {
		name, reference string
		value           *string
	}{
		{"proxy_auth", c.GetProxyAuth(), &connection.ProxyAuth}, {"ca", c.GetCa(), &connection.CA},
		{"certificate", c.GetCertificate(), &connection.Certificate}, {"key", c.GetKey(), &connection.Key},
	} {
		value, err := reveal(field.reference)
		if err != nil {
			return Connection{}, fmt.Errorf("%s: %w", field.name, err)
		}
		*field.value = value
	}
	return connection, nil
}

// check returns an error for settings that contradict each other.
func (c *Connection) check() error {
	switch {
	case (c.Certificate == "") != (c.Key == ""):
		return errors.New("connection.certificate and connection.key belong together: set both or neither")
	case c.CA != "" && c.InsecureSkipVerify:
		return errors.New("connection.ca and connection.insecure_skip_verify contradict each other: remove one of them")
	case c.ProxyAuth != "" && c.Proxy == "":
		return errors.New("connection.proxy_auth is set without connection.proxy: set the proxy, or remove proxy_auth")
	case c.ProxyAuth != "" && (!validHeaderValue(c.ProxyAuth) || !strings.Contains(c.ProxyAuth, ":")):
		return errors.New(`connection.proxy_auth must be written "user:password", without line breaks`)
	}
	return nil
}

// TLSAndProxy returns how other clients reach the target's hosts over HTTP/1.1 for traffic that is not load: a TLS
// configuration, and the proxy, nil if there is none. The proxy's URL contains its password. It fails if the settings
// contradict each other or a certificate cannot be parsed.
func (c *Connection) TLSAndProxy() (config *tls.Config, proxy *url.URL, err error) {
	if err := c.check(); err != nil {
		return nil, nil, err
	}
	config = &tls.Config{}
	if err := c.secure(config); err != nil {
		return nil, nil, err
	}
	config.NextProtos = nil // those are the load's
	p, err := proxyOf(c)
	if err != nil || p == nil {
		return config, nil, err
	}
	return config, p.url, nil
}

// protocol returns the ALPN protocol to agree on.
func (c *Connection) protocol() string {
	if c.HTTP2 {
		return "h2"
	}
	return "http/1.1"
}

// secure adds the target's settings to a TLS configuration.
func (c *Connection) secure(config *tls.Config) error {
	config.NextProtos = []string{c.protocol()}
	config.InsecureSkipVerify = c.InsecureSkipVerify //nolint:gosec // by name, and the plan's own word
	if c.ServerName != "" {
		config.ServerName = c.ServerName
	}
	if c.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(c.CA)) {
			return errors.New("connection.ca contains no certificate in PEM (-----BEGIN CERTIFICATE-----)")
		}
	}
	if c.Certificate == "" {
		return nil
	}
	pair, err := tls.X509KeyPair([]byte(c.Certificate), []byte(c.Key))
	if err != nil {
		return fmt.Errorf("connection.certificate and connection.key: %w", err)
	}
	config.Certificates = []tls.Certificate{pair}
	return nil
}

// proxy is the HTTP proxy between this machine and the endpoints.
type proxy struct {
	url     *url.URL // with user and password, which must not be shown
	address string
	header  string // Proxy-Authorization; empty: none
}

// proxyOf parses the proxy's address. Nil: no proxy.
func proxyOf(c *Connection) (*proxy, error) {
	if c.Proxy == "" {
		return nil, nil //nolint:nilnil // no proxy is not an error
	}
	u, err := url.Parse(c.Proxy)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("connection.proxy must be given as http://host:port, without user and path")
	}
	p := &proxy{url: &url.URL{Scheme: u.Scheme, Host: u.Host}, address: dialAddress(u)}
	if user, password, given := strings.Cut(c.ProxyAuth, ":"); given {
		p.url.User = url.UserPassword(user, password)
		p.header = "Basic " + base64.StdEncoding.EncodeToString([]byte(c.ProxyAuth))
	}
	return p, nil
}
