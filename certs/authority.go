package certs

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/internal/files"
)

// Authority signs the certificates of a cluster, and takes them back. Its methods may be called concurrently.
type Authority struct {
	// PeopleByName says that people join only by invitations of their names, because some may do more than others.
	PeopleByName bool

	dir     string
	pair    *tls.Certificate
	secret  []byte // authenticates tokens
	names   *rate.Limiter
	lock    *files.Lock // of OpenOwn
	joining sync.Mutex
}

// Each name that joins is a file. mostNames may join at once, and one a second after that, so that who has an
// invitation cannot fill the disk.
const mostNames = 100_000

// OpenAuthority loads the authority of a directory.
func OpenAuthority(dir string) (*Authority, error) {
	pair, err := Files{Cert: filepath.Join(dir, AuthorityCert), Key: filepath.Join(dir, AuthorityKey)}.pair()
	if err != nil {
		return nil, fmt.Errorf("%s has no authority (--dir names that of a coordinator, as it has printed; "+
			"`spate certs init` makes one): %w", dir, err)
	}
	key, err1 := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	secret, err2 := hkdf.Key(sha256.New, key, nil, "spate invitations", sha256.Size)
	a := &Authority{dir: dir, pair: pair, secret: secret, names: rate.NewLimiter(1, mostNames)}
	return a, errors.Join(err1, err2)
}

// OpenOwn opens the authority of a coordinator that others reach at an address, or makes it if there is none. It issues
// the coordinator's certificate, which is valid as long as the authority: who could steal its key could steal that of
// the authority, too. The directory stays locked: another coordinator would note its own address.
func OpenOwn(dir, address string, now time.Time) (*Authority, error) {
	err := os.MkdirAll(dir, 0o700)
	lock, locked := files.LockDir(dir)
	if err := cmp.Or(err, locked); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, AuthorityCert)); errors.Is(err, fs.ErrNotExist) {
		if err := Init(dir, now); err != nil {
			return nil, err
		}
	}
	a, err := OpenAuthority(dir)
	if err != nil {
		return nil, err
	}
	a.lock = lock
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

// invited returns whom a token invites, whether for this name alone, and when it was made.
func (a *Authority) invited(token, name string, now time.Time) (id Identity, bound bool, made time.Time, err error) {
	id, made, err = a.read(token, now)
	switch bound = id.Name != ""; {
	case err != nil || bound:
	case id.Role == Client && a.PeopleByName:
		err = refused("the invitation is for all, but here some may do more than others: ask its owner for one of your name " +
			"(`spate certs invite client NAME`)")
	case checkName(name) != nil:
		err = refused("%v", checkName(name))
	default:
		id.Name = name
	}
	return id, bound, made, err
}

// admit returns whom a token lets take part. a.joining is held.
func (a *Authority) admit(token, name string, key *ecdsa.PublicKey, now time.Time) (Identity, error) {
	id, bound, made, err := a.invited(token, name, now)
	if err != nil {
		return id, err
	}
	revoked, err := readRevoked(a.Own().revoked())
	for other, at := range revoked {
		if strings.HasPrefix(other, string(id.Role)+"/") && made.Before(at) {
			return id, refused("the invitation was made before %s was revoked, which ended all invitations of that role: "+
				"ask for a new one (`spate certs invite %s`)", other, id.Role)
		}
	}
	text, _ := os.ReadFile(a.record(id)) // none: the name is free
	if text == nil && !a.names.AllowN(now, 1) {
		return id, status.Errorf(codes.ResourceExhausted, "%d new names have joined: try again in a few seconds", mostNames)
	}
	if old, err := x509.ParseCertificate(text); err == nil && !bound && now.Before(old.NotAfter) &&
		!issuedAt(old).Before(revoked[id.path()]) && !key.Equal(old.PublicKey) {
		return id, refused("the name %s was taken by the %s of another machine at %s: give another --name, or ask for an "+
			"invitation of this name (`spate certs invite %[2]s %[1]s`)", id.Name, id.Role,
			issuedAt(old).UTC().Format(time.DateTime))
	}
	return id, err
}

// Unnoticed is the longest that a coordinator may not know of a revocation, and still renew the certificate.
const Unnoticed = 3 * time.Second

// Revoke takes back the certificates of a name (ROLE/NAME, or NAME for an agent and a client of that name), and all
// invitations of their roles, that are made until now + Unnoticed. It returns whose they were.
func (a *Authority) Revoke(name string, now time.Time) (whose []Identity, err error) {
	lock, err := files.LockFile(filepath.Join(a.dir, AuthorityCert)) // another one may revoke, too
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Release() }()
	all, err := readRevoked(a.Own().revoked())
	if err != nil {
		return nil, err
	}
	role, rest, _ := strings.Cut(name, "/")
	for _, id := range []Identity{{Agent, name}, {Client, name}, {Role(role), rest}} {
		if _, err := os.Stat(a.record(id)); err == nil && id.Role != Coordinator {
			whose = append(whose, id)
			all[id.path()] = now.Add(Unnoticed).Truncate(time.Second) // certificates have whole seconds
		}
	}
	if whose == nil {
		return nil, fmt.Errorf("%q: no certificate of that name was issued: want NAME, agent/NAME or client/NAME, as in %s",
			name, filepath.Dir(a.record(Identity{})))
	}
	text, err := json.MarshalIndent(all, "", "  ")
	return whose, errors.Join(err, files.Replace(a.Own().revoked(), text))
}

// path is how the list of what was revoked names an identity.
func (i Identity) path() string { return string(i.Role) + "/" + i.Name }

// revoked is the list of what the authority has taken back, beside its certificate.
func (f Files) revoked() string { return filepath.Join(filepath.Dir(f.Authority), "revoked.json") }

// readRevoked reads whose certificates were taken back, and when.
func readRevoked(path string) (map[string]time.Time, error) {
	all := map[string]time.Time{}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err = cmp.Or(err, json.Unmarshal(text, &all)); err != nil {
		return nil, fmt.Errorf("the list of revoked certificates, %s: %w", path, err)
	}
	return all, nil
}

// Revocations are the certificates that an authority has taken back.
type Revocations struct {
	path   string
	mu     sync.Mutex
	looked time.Time
	list   map[string]time.Time
	err    error
}

// Revocations returns what the authority has taken back. Its file is read again each second.
func (f Files) Revocations() *Revocations { return &Revocations{path: f.revoked()} }

// check returns an error if a certificate was taken back. If that cannot be known, it is an error, too.
func (r *Revocations) check(cert *x509.Certificate) error {
	id, _ := identityOf(cert) // it was verified
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.looked) >= time.Second {
		r.looked = now
		r.list, r.err = readRevoked(r.path)
	}
	if at := r.list[id.path()]; issuedAt(cert).Before(at) {
		return fmt.Errorf("the certificate of %s was revoked at %s: it can join again only by a new invitation "+
			"(`spate certs invite %s`)", id, at.Add(-Unnoticed).UTC().Format(time.DateTime), id.Role)
	}
	return r.err
}
