package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/internal/files"
)

// Authority signs the certificates of a cluster. Its methods may be called concurrently.
type Authority struct {
	dir     string
	pair    *tls.Certificate
	secret  []byte // authenticates tokens
	joining sync.Mutex
}

// OpenAuthority loads the authority of a directory.
func OpenAuthority(dir string) (*Authority, error) {
	pair, err := Files{Cert: filepath.Join(dir, AuthorityCert), Key: filepath.Join(dir, AuthorityKey)}.pair()
	if err != nil {
		return nil, fmt.Errorf("%s has no authority (`spate certs init` makes one): %w", dir, err)
	}
	key, err1 := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	secret, err2 := hkdf.Key(sha256.New, key, nil, "spate invitations", sha256.Size)
	return &Authority{dir: dir, pair: pair, secret: secret}, errors.Join(err1, err2)
}

// OpenOwn opens the authority of a coordinator that others reach at an address, or makes it if there is none. It issues
// the coordinator's certificate, which is valid as long as the authority: who could steal its key could steal that of
// the authority, too.
func OpenOwn(dir, address string, now time.Time) (*Authority, error) {
	if _, err := os.Stat(filepath.Join(dir, AuthorityCert)); errors.Is(err, fs.ErrNotExist) {
		if err := Init(dir, now); err != nil {
			return nil, err
		}
	}
	a, err := OpenAuthority(dir)
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(address)
	err = a.issueTo(a.Own(), Identity{Coordinator, string(Coordinator)}, []string{host}, now, a.pair.Leaf.NotAfter)
	return a, errors.Join(err, files.Replace(a.address(), []byte(address)))
}

// Own returns the files of the coordinator whose authority it is.
func (a *Authority) Own() Files { return JoinedFiles(a.dir) }

// issueTo makes a certificate and its key in files.
func (a *Authority) issueTo(f Files, id Identity, hosts []string, now, until time.Time) error {
	return f.certify(func(key *ecdsa.PrivateKey) (cert, authority []byte, err error) {
		cert, err = a.issue(id, hosts, &key.PublicKey, now, until)
		return cert, a.Certificate(), err
	})
}

func (a *Authority) address() string { return filepath.Join(a.dir, "address") }

// Certificate returns the authority's certificate in DER form.
func (a *Authority) Certificate() []byte { return a.pair.Leaf.Raw }

// Fingerprint returns the fingerprint of a certificate in DER form.
func Fingerprint(cert []byte) string {
	sum := sha256.Sum256(cert)
	return hex.EncodeToString(sum[:])
}

// issue makes a certificate for a public key, and writes it down.
func (a *Authority) issue(
	id Identity, hosts []string, key crypto.PublicKey, now, until time.Time,
) ([]byte, error) {
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: id.Name},
		NotBefore: now.Add(-backdated), NotAfter: until,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs:        []*url.URL{{Scheme: scheme, Host: string(id.Role), Path: "/" + id.Name}},
	}
	if id.Role == Coordinator {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, a.pair.Leaf, key, a.pair.PrivateKey)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(a.record(id)), 0o700), files.Replace(a.record(id), cert))
	}
	return cert, err
}

// record is where the newest certificate of a program is written down.
func (a *Authority) record(id Identity) string {
	return filepath.Join(a.dir, "issued", string(id.Role)+"-"+id.Name+".der")
}

// issuedAt is when a certificate was issued.
func issuedAt(cert *x509.Certificate) time.Time { return cert.NotBefore.Add(backdated) }

// maxRequest is the largest signing request, in bytes. Those of Spate have some 200.
const maxRequest = 4 << 10

// Enrol issues a certificate for the key of a signing request, of which nothing else counts: to who, or to a program of
// a name that has a token. A name must be free, unless the token is for it alone. An error with the code
// PERMISSION_DENIED is the program's fault.
func (a *Authority) Enrol(
	who Identity, token, name string, request []byte, now time.Time, validity time.Duration,
) (Identity, []byte, error) {
	r, err := x509.ParseCertificateRequest(request[:min(len(request), maxRequest)])
	if err == nil {
		err = r.CheckSignature()
	}
	if err != nil {
		return who, nil, refused("the signing request is not valid: %v", err)
	}
	key, is := r.PublicKey.(*ecdsa.PublicKey)
	if !is {
		return who, nil, refused("the signing request is for a key of %s: want ECDSA", r.PublicKeyAlgorithm)
	}
	a.joining.Lock()
	defer a.joining.Unlock()
	if token != "" || who.Role == Stranger {
		if who, err = a.admit(token, name, key, now); err != nil {
			return who, nil, err
		}
	}
	cert, err := a.issue(who, nil, key, now, now.Add(validity))
	return who, cert, err
}

// refused returns the error of a program's fault.
func refused(format string, args ...any) error {
	return status.Errorf(codes.PermissionDenied, format, args...)
}

// admit returns whom a token lets take part. a.joining is held.
func (a *Authority) admit(token, name string, key *ecdsa.PublicKey, now time.Time) (Identity, error) {
	id, err := a.read(token, now)
	if err != nil {
		return id, err
	}
	bound := id.Name != ""
	if !bound {
		id.Name = name
	}
	if err := checkName(id.Name); err != nil {
		return Identity{Role: id.Role}, refused("%v", err)
	}
	text, _ := os.ReadFile(a.record(id)) // none: the name is free
	if old, err := x509.ParseCertificate(text); err == nil && !bound && now.Before(old.NotAfter) &&
		!key.Equal(old.PublicKey) {
		return id, refused("the name %s was taken by the %s of another machine at %s: give another --name, or ask for an "+
			"invitation of this name (`spate certs invite %[2]s %[1]s`)", id.Name, id.Role,
			issuedAt(old).UTC().Format(time.DateTime))
	}
	return id, nil
}
