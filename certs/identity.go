package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

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

// pool returns a pool that holds the authority.
func (f Files) pool() (*x509.CertPool, error) {
	ca, err := readCert(f.Authority)
	if err != nil {
		return nil, fmt.Errorf("certificate of the authority: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return pool, nil
}

// pair loads the program's certificate and key. Errors never show the key.
func (f Files) pair() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
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
