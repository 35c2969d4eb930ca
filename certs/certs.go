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
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
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
	"slices"
	"strings"
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
	ca, err := authority(dir)
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
	cert, err := sign(template, ca.Leaf, key, ca.PrivateKey)
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
func sign(template, parent *x509.Certificate, key *ecdsa.PrivateKey, signer crypto.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	return x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
}

// authority loads the authority of a directory.
func authority(dir string) (*tls.Certificate, error) {
	pair, err := Files{Cert: filepath.Join(dir, AuthorityCert), Key: filepath.Join(dir, AuthorityKey)}.pair()
	if err != nil {
		return nil, fmt.Errorf("%s has no authority (`spate certs init` makes one): %w", dir, err)
	}
	return pair, nil
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

// scheme of the URI in which a certificate states its role and name: spate://agent/gpu-7.
const scheme = "spate"

// Identity is the role and name that a certificate states.
type Identity struct {
	Role Role
	Name string
}

// article puts "a" or "an" before a role.
func (r Role) article() string {
	if r == Agent {
		return "an " + string(r)
	}
	return "a " + string(r)
}

// String returns the identity as logs show it: "agent gpu-7".
func (i Identity) String() string { return string(i.Role) + " " + i.Name }

// identityOf returns the identity in a certificate.
func identityOf(cert *x509.Certificate) (Identity, error) {
	for _, u := range cert.URIs {
		role, name := Role(u.Host), strings.TrimPrefix(u.Path, "/")
		if u.Scheme == scheme && slices.Contains([]Role{Coordinator, Agent, Client}, role) && name != "" {
			return Identity{role, name}, nil
		}
	}
	return Identity{}, fmt.Errorf("the certificate of %q states no role: make one with `spate certs`",
		cert.Subject.CommonName)
}

// Files are the paths of a program's certificate files, with the flags that name them: the certificate of the cluster's
// authority, and the program's own certificate and key.
type Files struct {
	Authority string `flag:"tls-ca" help:"<file> of the cluster's authority, ca.crt of \"spate certs init\"; with --tls-cert and --tls-key, connections are encrypted and authenticated"`
	Cert      string `flag:"tls-cert" help:"<file> of this program's certificate"`
	Key       string `flag:"tls-key" help:"<file> of its key"`
}

// Given reports whether any of the files is named.
func (f Files) Given() bool { return f.Authority != "" || f.Cert != "" || f.Key != "" }

// Check loads the files and returns the identity that they give the program, and when the certificate expires. It
// returns an error if a file is missing or damaged, if the files do not belong together, or if the certificate is not
// valid at now.
func (f Files) Check(now time.Time) (Identity, time.Time, error) {
	none := Identity{}
	pool, err := f.pool()
	if err != nil {
		return none, time.Time{}, err
	}
	pair, err := f.pair()
	if err != nil {
		return none, time.Time{}, err
	}
	id, err := verify(pool, []*x509.Certificate{pair.Leaf}, now)
	if _, foreign := errors.AsType[x509.UnknownAuthorityError](err); foreign {
		err = fmt.Errorf("%s is from another authority than %s: give all programs certificates of one cluster", f.Cert,
			f.Authority)
	} else if err != nil {
		err = fmt.Errorf("%s: %w", f.Cert, err)
	}
	return id, pair.Leaf.NotAfter, err
}

// maxPEM is the largest size of a file with certificates or a key, in bytes.
const maxPEM = 1 << 20

// pool returns a pool that holds the authority.
func (f Files) pool() (*x509.CertPool, error) {
	text, err := files.ReadFile(f.Authority, maxPEM)
	if err != nil {
		return nil, fmt.Errorf("certificate of the authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: the file has no certificate in PEM form", f.Authority)
	}
	return pool, nil
}

// pair loads a certificate and its key. Errors never show the key.
func (f Files) pair() (*tls.Certificate, error) {
	cert, err1 := files.ReadFile(f.Cert, maxPEM)
	key, err2 := files.ReadFile(f.Key, maxPEM)
	err := errors.Join(err1, err2)
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.X509KeyPair(cert, key)
	}
	if err != nil {
		return nil, fmt.Errorf("certificate %s and key %s: %w", f.Cert, f.Key, err)
	}
	return &pair, nil
}

// verify checks a peer's certificates against the authority and returns who it is.
func verify(authority *x509.CertPool, chain []*x509.Certificate, now time.Time) (Identity, error) {
	if len(chain) == 0 {
		return Identity{}, errors.New("no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: authority, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return Identity{}, err
	}
	return identityOf(chain[0])
}
