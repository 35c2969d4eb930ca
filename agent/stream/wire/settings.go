package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/spate-load/spate/agent/allow"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Settings say how connections to a target are opened and kept. The zero value: kept open, HTTP/1.1, no proxy,
// the system's certificate authorities.
type Settings struct {
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
	// PacketTimes: frames have the times of the packets that carried them, however late the program reads them, on
	// Linux with the capability CAP_BPF. Elsewhere it has no effect.
	PacketTimes bool
	// Pins are the addresses of hosts whose names must not be looked up again. Names of other hosts are looked up.
	Pins allow.Pins
}

// SettingsOf returns the settings that a plan asks for. reveal returns the secret that a reference stands for, or
// "" for an empty reference. Its error is returned with the field's name.
func SettingsOf(c *spatev1.Connection, reveal func(reference string) (string, error)) (Settings, error) {
	settings := Settings{
		New: c.GetReuse() == "new", HTTP2: c.GetHttp() == "2", Proxy: c.GetProxy(), ServerName: c.GetServerName(),
		InsecureSkipVerify: c.GetInsecureSkipVerify(),
	}
	for _, field := range []struct {
		name, reference string
		value           *string
	}{
		{"proxy_auth", c.GetProxyAuth(), &settings.ProxyAuth}, {"ca", c.GetCa(), &settings.CA},
		{"certificate", c.GetCertificate(), &settings.Certificate}, {"key", c.GetKey(), &settings.Key},
	} {
		value, err := reveal(field.reference)
		if err != nil {
			return Settings{}, fmt.Errorf("%s: %w", field.name, err)
		}
		*field.value = value
	}
	return settings, nil
}

// check returns an error for settings that contradict each other.
func (s *Settings) check() error {
	switch {
	case (s.Certificate == "") != (s.Key == ""):
		return errors.New("connection.certificate and connection.key belong together: set both or neither")
	case s.CA != "" && s.InsecureSkipVerify:
		return errors.New("connection.ca and connection.insecure_skip_verify contradict each other: remove one of them")
	case s.ProxyAuth != "" && s.Proxy == "":
		return errors.New("connection.proxy_auth is set without connection.proxy: set the proxy, or remove proxy_auth")
	case s.ProxyAuth != "" && (!httpguts.ValidHeaderFieldValue(s.ProxyAuth) || !strings.Contains(s.ProxyAuth, ":")):
		return errors.New(`connection.proxy_auth must be written "user:password", without line breaks`)
	}
	return nil
}

// TLSAndProxy returns how other clients reach the target's hosts over HTTP/1.1 for traffic that is not load: a TLS
// configuration, and the proxy, nil if there is none. The proxy's URL contains its password. It fails if the settings
// contradict each other or a certificate cannot be parsed.
func (s *Settings) TLSAndProxy() (config *tls.Config, proxy *url.URL, err error) {
	if err := s.check(); err != nil {
		return nil, nil, err
	}
	config = &tls.Config{}
	if err := s.secure(config); err != nil {
		return nil, nil, err
	}
	config.NextProtos = nil // those are the load's
	p, err := proxyOf(s)
	if err != nil || p == nil {
		return config, nil, err
	}
	return config, p.url, nil
}

// protocol returns the ALPN protocol to agree on.
func (s *Settings) protocol() string {
	if s.HTTP2 {
		return "h2"
	}
	return "http/1.1"
}

// secure adds the target's settings to a TLS configuration.
func (s *Settings) secure(config *tls.Config) error {
	config.NextProtos = []string{s.protocol()}
	config.InsecureSkipVerify = s.InsecureSkipVerify //nolint:gosec // by name, and the plan's own word
	if s.ServerName != "" {
		config.ServerName = s.ServerName
	}
	if s.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(s.CA)) {
			return errors.New("connection.ca contains no certificate in PEM (-----BEGIN CERTIFICATE-----)")
		}
	}
	if s.Certificate == "" {
		return nil
	}
	pair, err := tls.X509KeyPair([]byte(s.Certificate), []byte(s.Key))
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
func proxyOf(s *Settings) (*proxy, error) {
	if s.Proxy == "" {
		return nil, nil //nolint:nilnil // no proxy is not an error
	}
	u, err := url.Parse(s.Proxy)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("connection.proxy must be given as http://host:port, without user and path")
	}
	p := &proxy{url: &url.URL{Scheme: u.Scheme, Host: u.Host}, address: dialAddress(u)}
	if user, password, given := strings.Cut(s.ProxyAuth, ":"); given {
		p.url.User = url.UserPassword(user, password)
		p.header = "Basic " + base64.StdEncoding.EncodeToString([]byte(s.ProxyAuth))
	}
	return p, nil
}

// tunnel asks a proxy for a tunnel to an address, on the connection c to the proxy. Its error contains the proxy's
// answer. It blocks until the proxy has answered or ctx ends.
func (p *proxy) tunnel(ctx context.Context, c net.Conn, address string) error {
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	ask := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address,
		Header: http.Header{"User-Agent": {"spate"}}}
	if p.header != "" {
		ask.Header.Set("Proxy-Authorization", p.header)
	}
	if err := ask.Write(c); err != nil {
		return fmt.Errorf("send CONNECT to the proxy %s: %w", p.address, innerError(err))
	}
	// Bytes after the head come from the endpoint and must not be read here.
	//nolint:bodyclose // it has no body: the tunnel follows
	response, err := http.ReadResponse(bufio.NewReaderSize(oneByOne{c}, 16), ask)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("the proxy %s did not answer CONNECT: %w", p.address, innerError(err))
	case response.StatusCode == http.StatusProxyAuthRequired:
		return p.unauthorised()
	case response.StatusCode/100 != 2:
		return fmt.Errorf("the proxy %s refused a tunnel to %s: %s", p.address, address, response.Status)
	}
	return nil
}

// unauthorised returns the error for a proxy's status 407.
func (p *proxy) unauthorised() error {
	if p.header == "" {
		return fmt.Errorf("the proxy %s requires a user and a password (407): set connection.proxy_auth", p.address)
	}
	return fmt.Errorf("the proxy %s rejected the user and password in connection.proxy_auth (407)", p.address)
}

// oneByOne reads one byte at a time, so that a buffered reader does not read ahead.
type oneByOne struct{ io.Reader }

// Read implements io.Reader.
func (r oneByOne) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, errors.New("empty read buffer")
	}
	return r.Reader.Read(p[:1])
}
