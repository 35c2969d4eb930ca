package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Protocol is the protocol of a Server's connections.
type Protocol struct {
	// HTTP is "1.1" (default), "2", or "any" for both. Without TLS, HTTP/2 is by prior knowledge (h2c); with TLS, by
	// ALPN.
	HTTP string `flag:"http" default:"1.1" oneof:"1.1, 2, any" help:"HTTP <version>: 1.1, 2, or any; HTTP/2 without --tls is by prior knowledge"`
	// TLS has the server's certificate: see SelfSigned. Nil, the default: connections are not encrypted.
	TLS *tls.Config
}

// Scheme returns the scheme of the URLs: http or https.
func (p *Protocol) Scheme() string {
	if p.TLS != nil {
		return "https"
	}
	return "http"
}

// Protocols returns the protocols in net/http's form.
func (p *Protocol) Protocols() *http.Protocols {
	var known http.Protocols
	known.SetHTTP1(p.HTTP != "2")
	if p.HTTP == "2" || p.HTTP == "any" {
		known.SetHTTP2(p.TLS != nil)
		known.SetUnencryptedHTTP2(p.TLS == nil)
	}
	return &known
}

// SelfSigned returns a TLS configuration with a new certificate for loopback and the given hosts (names or IP
// addresses), and the PEM of the certificate, which is its own authority. The certificate is valid for a year. Its key
// exists only in the configuration.
func SelfSigned(now time.Time, hosts ...string) (*tls.Config, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("simulator: cannot make a key: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "spate simulator"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(1, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA:                  true,
		BasicConstraintsValid: true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if host != "" {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("simulator: cannot make a certificate for %q: %w", hosts, err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		MinVersion: tls.VersionTLS12}
	return config, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
