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
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
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

// Roles are all roles.
var Roles = []Role{Coordinator, Agent, Client}

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
	own := Files{Cert: filepath.Join(dir, AuthorityCert), Key: filepath.Join(dir, AuthorityKey)}
	own.Authority = own.Cert
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "Spate cluster"},
		NotBefore: now.Add(-backdated), NotAfter: now.Add(AuthorityValidity),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	return own.certify(func(key *ecdsa.PrivateKey) (cert, authority []byte, err error) {
		cert, err = x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		return cert, cert, err
	})
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// checkName returns an error if a certificate cannot have a name.
func checkName(name string) error {
	if namePattern.MatchString(name) && name != "ca" {
		return nil
	}
	return fmt.Errorf("name %.80q: want letters, digits, dots, dashes and underscores, beginning with a letter or digit, "+
		"and not \"ca\"", name)
}

// Issue makes a certificate, signed by the authority in dir, and its key, as DIR/NAME.crt and DIR/NAME.key. hosts are
// names and addresses that other programs may expect in a coordinator's certificate; Spate's own programs do not check
// them. Issue overwrites nothing.
func Issue(dir string, role Role, name string, hosts []string, now time.Time) (own Files, err error) {
	if err := checkName(name); err != nil {
		return own, err
	}
	ca, err := OpenAuthority(dir)
	if err != nil {
		return own, err
	}
	own = Files{
		Authority: filepath.Join(dir, AuthorityCert), Cert: filepath.Join(dir, name+".crt"),
		Key: filepath.Join(dir, name+".key"),
	}
	return own, ca.issueTo(own, Identity{role, name}, hosts, now, now.Add(Validity))
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
		if u.Scheme == scheme && slices.Contains(Roles, role) && name != "" {
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
func (f Files) Check(now time.Time) (id Identity, until time.Time, err error) {
	pool, err := Pool(f.Authority)
	if err != nil {
		return id, until, err
	}
	pair, err := f.pair()
	if err != nil {
		return id, until, err
	}
	id, err = verify(pool, []*x509.Certificate{pair.Leaf}, now)
	if _, foreign := errors.AsType[x509.UnknownAuthorityError](err); foreign {
		err = fmt.Errorf("%s is from another authority than %s: give all programs certificates of one cluster", f.Cert,
			f.Authority)
	} else if err != nil {
		err = fmt.Errorf("%s: %w: ask for a new one (`spate certs --help`)", f.Cert, err)
	}
	return id, pair.Leaf.NotAfter, err
}

// maxPEM is the largest size of a file with certificates or a key, in bytes.
const maxPEM = 1 << 20

// Pool returns a pool that holds the authorities of a file.
func Pool(path string) (*x509.CertPool, error) {
	text, err := files.ReadFile(path, maxPEM)
	if err != nil {
		return nil, fmt.Errorf("certificate of the authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: the file has no certificate in PEM form", path)
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

// JoinedFiles are the files of a program that joined by an invitation, in a directory of its own. Certificate and key
// are one file, so that both are always of one renewal.
func JoinedFiles(dir string) Files {
	own := filepath.Join(dir, "spate.pem")
	return Files{Authority: filepath.Join(dir, AuthorityCert), Cert: own, Key: own}
}

// Joined reports whether the files are of a program that joined by an invitation.
func (f Files) Joined() bool { return f.Cert != "" && f.Cert == f.Key }

// RenewAt returns when the certificate should be renewed: when a third of its time is left. Without one it is now.
func (f Files) RenewAt() time.Time {
	pair, err := f.pair()
	if err != nil {
		return time.Time{}
	}
	from := issuedAt(pair.Leaf)
	return from.Add(pair.Leaf.NotAfter.Sub(from) * 2 / 3)
}

// Join asks an authority for a certificate by a signing request, and writes the answer, a certificate and that of the
// authority, to the files. The key is the one in the files. If there is none, Join makes one, and writes it before it
// asks: an authority knows a program that asks again, because the answer was lost, by its key.
func (f Files) Join(ask func(request []byte) (cert, authority []byte, err error)) error {
	return f.certify(func(key *ecdsa.PrivateKey) (cert, authority []byte, err error) {
		request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
		if err != nil {
			return nil, nil, err
		}
		return ask(request)
	})
}

// certify writes the certificate for a key, and that of the authority, to the files. It overwrites only those of a
// program that has joined.
func (f Files) certify(issue func(*ecdsa.PrivateKey) (cert, authority []byte, err error)) (err error) {
	for _, path := range []string{f.Cert, f.Key} {
		if _, err := os.Stat(path); err == nil && !f.Joined() {
			return fmt.Errorf("%s exists already: choose another name, or move it away", path)
		}
	}
	var key *ecdsa.PrivateKey
	text, _ := files.ReadFile(f.Key, maxPEM) // unreadable: writing fails, too
	if block, _ := pem.Decode(text); block != nil {
		key, _ = x509.ParseECPrivateKey(block.Bytes) // faulty: a new one is made
	}
	known := key != nil
	if !known {
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return err
		}
	}
	der, err := x509.MarshalECPrivateKey(key)
	secret := inPEM("EC PRIVATE KEY", der)
	if err = cmp.Or(err, os.MkdirAll(filepath.Dir(f.Key), 0o700)); err == nil && !known {
		err = files.ReplaceSecret(f.Key, secret)
	}
	if err != nil {
		return err
	}
	cert, authority, err := issue(key)
	if err != nil {
		return err
	}
	if f.Joined() {
		err = files.ReplaceSecret(f.Key, append(secret, inPEM("CERTIFICATE", cert, authority)...))
	} else {
		err = files.Replace(f.Cert, inPEM("CERTIFICATE", cert))
	}
	return errors.Join(err, files.Replace(f.Authority, inPEM("CERTIFICATE", authority)))
}

func inPEM(kind string, blocks ...[]byte) (text []byte) {
	for _, der := range blocks {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})...)
	}
	return text
}
