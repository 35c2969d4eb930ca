// Package certs makes and checks the certificates with which Spate's programs authenticate each other.
//
// A cluster has its own certificate authority. Each program holds a certificate from it that states the program's role:
// a coordinator, an agent, or a client that runs plans. Connections use TLS 1.3 with certificates on both sides. The
// role alone decides what a peer may do: an agent cannot submit runs, and a client cannot pose as an agent. Names and
// addresses decide nothing, since agents come and go and are found by gossip.
//
// The commands make certificates and load them; the coordinator and its callers get ready credentials. The package
// opens no connections and never prints a key.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spate-load/spate/internal/files"
)

// Role is what the holder of a certificate may do.
type Role string

const (
	// Coordinator serves agents and clients.
	Coordinator Role = "coordinator"
	// Agent accepts assignments and pushes measurements.
	Agent Role = "agent"
	// Client runs plans and reads results.
	Client Role = "client"
)

// Names of the authority's files in its directory. The key signs certificates: its holder can pose as any
// program.
const (
	AuthorityCert = "ca.crt"
	AuthorityKey  = "ca.key"
)

// Validity of certificates. They start a little in the past, so that machines whose clocks are behind accept new ones.
const (
	AuthorityValidity = 10 * 365 * 24 * time.Hour
	Validity          = 365 * 24 * time.Hour
	backdated         = time.Hour
)

// Init makes an authority in a directory, which it creates if necessary. It never overwrites an authority, because the
// certificates of the old one would become worthless.
func Init(dir string, now time.Time) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("directory of certificates: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "Spate cluster"},
		NotBefore: now.Add(-backdated), NotAfter: now.Add(AuthorityValidity),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	cert, err := sign(template, template, key, key)
	if err != nil {
		return err
	}
	return save(filepath.Join(dir, AuthorityCert), filepath.Join(dir, AuthorityKey), cert, key)
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// Issue makes a certificate, signed by the authority in dir, and its key, as DIR/NAME.crt and DIR/NAME.key. hosts are
// names and addresses that other programs may expect in a coordinator's certificate; Spate's own programs do not check
// them. Issue overwrites nothing.
func Issue(dir string, role Role, name string, hosts []string, now time.Time) (Files, error) {
	none := Files{}
	if !namePattern.MatchString(name) || name == "ca" {
		return none, fmt.Errorf("name %q: want letters, digits, dots, dashes and underscores, beginning with a "+
			"letter or digit, and not \"ca\"", name)
	}
	ca, caKey, err := authority(dir)
	if err != nil {
		return none, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return none, err
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: now.Add(-backdated), NotAfter: now.Add(Validity),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs:        []*url.URL{{Scheme: scheme, Host: string(role), Path: "/" + name}},
	}
	if role == Coordinator {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	cert, err := sign(template, ca, key, caKey)
	if err != nil {
		return none, err
	}
	files := Files{
		Authority: filepath.Join(dir, AuthorityCert), Cert: filepath.Join(dir, name+".crt"),
		Key: filepath.Join(dir, name+".key"),
	}
	return files, save(files.Cert, files.Key, cert, key)
}

// sign returns a certificate for the public half of key.
func sign(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	return x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
}

// authority loads the authority of a directory.
func authority(dir string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	cert, err := readCert(filepath.Join(dir, AuthorityCert))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("there is no authority in %s: make one with `spate certs init`", dir)
	}
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(dir, AuthorityKey)
	block, err := readPEM(path, "EC PRIVATE KEY")
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParseECPrivateKey(block)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: not the key of an authority", path)
	}
	return cert, key, nil
}

// readCert reads one certificate.
func readCert(path string) (*x509.Certificate, error) {
	block, err := readPEM(path, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(block)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cert, nil
}

// maxPEM is the largest size of a file with a certificate or a key, in bytes.
const maxPEM = 1 << 20

// readPEM reads the first block of a file.
func readPEM(path, kind string) ([]byte, error) {
	text, err := files.ReadFile(path, maxPEM)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s: not a PEM file of a %s", path, kind)
	}
	return block.Bytes, nil
}

// save writes a certificate and its key. Only the owner may read the key. If either file exists, save writes neither.
func save(certPath, keyPath string, cert []byte, key *ecdsa.PrivateKey) error {
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	for _, path := range []string{certPath, keyPath} {
		if _, err := os.Stat(path); err == nil {
			return fmt.Errorf("%s exists already: choose another name, or move it away", path)
		}
	}
	if err := writeNew(keyPath, 0o600,
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})); err != nil {
		return err
	}
	return writeNew(certPath, 0o644, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
}

func writeNew(path string, mode os.FileMode, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
