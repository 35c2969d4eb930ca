package certs

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// now has no whole second, as times in general.
var now = time.Date(2026, 11, 29, 12, 0, 0, 700_000_000, time.UTC)

func own(t *testing.T) *Authority {
	t.Helper()
	a, err := OpenOwn(filepath.Join(t.TempDir(), "certs"), "10.0.0.1:7700", now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func invited(t *testing.T, a *Authority, role Role, name string, at time.Time) string {
	t.Helper()
	i, err := a.Invite(role, name, time.Hour, at)
	if err != nil {
		t.Fatal(err)
	}
	return i.Token
}

// request returns a machine's signing request, whose answer is lost.
func request(t *testing.T, f Files) (request []byte) {
	t.Helper()
	lost := errors.New("lost")
	if err := f.Join(func(r []byte) (cert, authority []byte, err error) {
		request = r
		return nil, nil, lost
	}); !errors.Is(err, lost) {
		t.Fatal(err)
	}
	return request
}

// machine is a machine that joins: what it keeps.
func machine(t *testing.T) Files {
	t.Helper()
	return JoinedFiles(filepath.Join(t.TempDir(), "joined"))
}

// enrolled enrols a machine and keeps its certificate. It returns the error's text.
func enrolled(t *testing.T, a *Authority, f Files, token, name string, at time.Time) (Identity, string) {
	t.Helper()
	var id Identity
	if err := f.Join(func(r []byte) (cert, authority []byte, err error) {
		id, cert, err = a.Enrol(Identity{}, token, name, r, at, 24*time.Hour)
		return cert, a.Certificate(), err
	}); err != nil {
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("code %v: %v", status.Code(err), err)
		}
		return id, status.Convert(err).Message()
	}
	return id, ""
}

func refuses(t *testing.T, what, got, want string) {
	t.Helper()
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestInvitationsAreRead: what String writes can be read, and all else is refused without repeating the token.
func TestInvitationsAreRead(t *testing.T) {
	i, err := own(t).Invite(Agent, "", time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	good := i.String()
	part, _, _ := strings.Cut(good, "&")
	if got, err := ParseInvitation(" " + good + "\n"); err != nil || got != i {
		t.Errorf("%v, %v, want %v", got, err, i)
	}
	for what, text := range map[string]string{
		"nothing": "", "cut by a shell at &": part, "cut": good[:len(good)-1],
		"no port": strings.Replace(good, ":7700", "", 1), "other scheme": "http" + good[5:], "a path": good + "/x",
		"no host": strings.Replace(good, "10.0.0.1", "", 1), "more": good + "&x=1",
	} {
		_, err := ParseInvitation(text)
		if err == nil || strings.Contains(err.Error(), i.Token) || !strings.Contains(err.Error(), "cut or mistyped") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestTokens: a token lets in until it ends, for its role and name, and nothing else does.
func TestTokens(t *testing.T) {
	a, other := own(t), own(t)
	agents, anna := invited(t, a, Agent, "", now), invited(t, a, Client, "anna", now)
	flipped := []byte(agents)
	flipped[20]++ // it would end later
	for what, c := range map[string]struct {
		token, name string
		at          time.Duration
		want        string
		as          string
	}{
		"an agent":          {agents, "gpu-7", time.Minute, "", "agent gpu-7"},
		"for a name":        {anna, "eve", time.Minute, "", "client anna"},
		"ended":             {agents, "a", time.Hour, "the invitation ended at 2026-11-29 13:00:00 UTC", ""},
		"of another":        {invited(t, other, Agent, "", now), "a", 0, "cut, damaged or of another cluster", ""},
		"changed":           {string(flipped), "a", 0, "cut, damaged or of another cluster", ""},
		"cut":               {agents[:len(agents)-3], "a", 0, "cut, damaged or of another cluster", ""},
		"cut to nothing":    {agents[:4], "a", 0, "cut, damaged or of another cluster", ""},
		"none":              {"", "a", 0, "cut, damaged or of another cluster", ""},
		"not base64":        {"!" + agents, "a", 0, "cut, damaged or of another cluster", ""},
		"endless":           {strings.Repeat("A", 1<<20), "a", 0, "cut, damaged or of another cluster", ""},
		"without a name":    {agents, "", 0, "want letters", ""},
		"with a path":       {agents, "../ca", 0, "want letters", ""},
		"name of authority": {agents, "ca", 0, "want letters", ""},
	} {
		id, got := enrolled(t, a, machine(t), c.token, c.name, now.Add(c.at))
		refuses(t, what, got, c.want)
		if c.as != "" && id.String() != c.as {
			t.Errorf("%s: joined as %s", what, id)
		}
	}
	if _, err := a.Invite(Client, "a b", time.Hour, now); err == nil {
		t.Error("an invitation for a name that no certificate can have")
	}
}

// TestOnlyTheKeyOfARequestCounts: role, name and what else a signing request claims is ignored; one that is faulty is
// refused.
func TestOnlyTheKeyOfARequestCounts(t *testing.T) {
	a := own(t)
	token := invited(t, a, Agent, "", now)
	f := machine(t)
	r := request(t, f)
	text, err := os.ReadFile(f.Key)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	claims := &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "coordinator"}, DNSNames: []string{"evil.example"},
		URIs: []*url.URL{{Scheme: scheme, Host: "coordinator", Path: "/main"}},
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, claims, key)
	if err != nil {
		t.Fatal(err)
	}
	_, cert, err := a.Enrol(Identity{}, token, "a", der, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	got, err := x509.ParseCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := identityOf(got); err != nil || id != (Identity{Agent, "a"}) || len(got.URIs) != 1 || got.DNSNames != nil ||
		got.IsCA || got.Subject.CommonName != "a" || !got.NotAfter.Equal(now.Add(time.Hour).Truncate(time.Second)) {
		t.Errorf("%v, %v: %+v", id, err, got)
	}
	_, odd, _ := ed25519.GenerateKey(rand.Reader)
	oddRequest, err := x509.CreateCertificateRequest(rand.Reader, claims, odd)
	if err != nil {
		t.Fatal(err)
	}
	forged := bytes.Clone(r)
	forged[len(forged)-1] ^= 1
	for what, der := range map[string][]byte{
		"none": nil, "garbled": []byte("garbled"), "forged": forged, "huge": append(bytes.Clone(r), make([]byte, 1<<20)...),
		"another kind of key": oddRequest,
	} {
		_, _, err := a.Enrol(Identity{}, token, "a", der, now, time.Hour)
		refuses(t, what, status.Convert(err).Message(), "the signing request is")
	}
}

// TestNamesBelongToMachines: a name that another machine has is refused, until its certificate ends or is revoked, or
// the owner invites this name. The machine itself may join again, and its answer may have been lost.
func TestNamesBelongToMachines(t *testing.T) {
	a := own(t)
	token := invited(t, a, Agent, "", now)
	first, second := machine(t), machine(t)
	lost := request(t, first)
	if _, _, err := a.Enrol(Identity{}, token, "gpu", lost, now, time.Hour); err != nil {
		t.Fatal(err)
	}
	_, again := enrolled(t, a, first, token, "gpu", now)
	refuses(t, "after a lost answer", again, "")
	_, taken := enrolled(t, a, second, token, "gpu", now)
	refuses(t, "another machine", taken, "the name gpu was taken by the agent of another machine at 2026-11-29 12:00:00: give another --name")
	_, as := enrolled(t, a, second, invited(t, a, Client, "", now), "gpu", now)
	refuses(t, "a client of that name", as, "")
	_, bound := enrolled(t, a, second, invited(t, a, Agent, "gpu", now), "gpu", now)
	refuses(t, "invited by name", bound, "")
	_, ended := enrolled(t, a, first, invited(t, a, Agent, "", now.Add(25*time.Hour)), "gpu", now.Add(25*time.Hour))
	refuses(t, "when it has ended", ended, "")
}

// TestManyJoinAtOnce: of machines that want one name at once, one gets it.
func TestManyJoinAtOnce(t *testing.T) {
	a := own(t)
	token := invited(t, a, Agent, "", now)
	var joining sync.WaitGroup
	var mu sync.Mutex
	in := 0
	for range 8 {
		r := request(t, machine(t))
		joining.Go(func() {
			if _, _, err := a.Enrol(Identity{}, token, "gpu", r, now, time.Hour); err == nil {
				mu.Lock()
				in++
				mu.Unlock()
			}
		})
	}
	joining.Wait()
	if in != 1 {
		t.Errorf("%d machines got the name", in)
	}
}

// What root leaves beside the list could not be used by the coordinator's user.
func TestRevocationLeavesOnlyItsList(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir, now); err != nil {
		t.Fatal(err)
	}
	a, err := OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	here := func() (names []string) {
		if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			names = append(names, strings.TrimPrefix(path, dir))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return names
	}
	before := here()
	if _, err := a.Revoke("gpu", now); err == nil || !slices.Equal(before, here()) {
		t.Errorf("of no certificate: %v, %q", err, here())
	}
	issued(t, dir, Agent, "gpu", now)
	before = here()
	if _, err := a.Revoke("gpu", now); err != nil || !slices.Equal(append(before, "/revoked.json"), here()) {
		t.Errorf("%v, %q, before %q", err, here(), before)
	}
}

// TestRevoked: a revoked certificate and all invitations before it end, in the same second, and new ones hold.
func TestRevoked(t *testing.T) {
	a := own(t)
	token, people := invited(t, a, Agent, "", now), invited(t, a, Client, "", now)
	f := machine(t)
	if _, err := enrolled(t, a, f, token, "gpu", now); err != "" {
		t.Fatal(err)
	}
	check := func() error {
		t.Helper()
		pair, err := f.pair()
		if err != nil {
			t.Fatal(err)
		}
		return a.Own().Revocations().check(pair.Leaf)
	}
	if err := check(); err != nil {
		t.Errorf("before: %v", err)
	}
	for _, name := range []string{"gpu2", "client/gpu", "worker/gpu", "coordinator/coordinator", "../ca", ""} {
		if whose, err := a.Revoke(name, now); err == nil {
			t.Errorf("%q: %v is revoked", name, whose)
		}
	}
	at := now.Add(100 * time.Millisecond)
	later := at.Add(Unnoticed)
	if whose, err := a.Revoke("gpu", at); err != nil || len(whose) != 1 || whose[0] != (Identity{Agent, "gpu"}) {
		t.Fatalf("%v, %v", whose, err)
	}
	if err := check(); err == nil || !strings.Contains(err.Error(), "of agent gpu was revoked at 2026-11-29 12:00:00: it can "+
		"join again only by a new invitation (`spate certs invite agent`)") {
		t.Errorf("after: %v", err)
	}
	_, old := enrolled(t, a, f, token, "other", at)
	refuses(t, "the old invitation", old, "before agent/gpu was revoked, which ended all invitations of that role")
	_, theirs := enrolled(t, a, machine(t), people, "anna", at)
	refuses(t, "of another role", theirs, "")
	_, again := enrolled(t, a, machine(t), invited(t, a, Agent, "", later), "gpu", later)
	refuses(t, "the name on another machine", again, "")
	_, again = enrolled(t, a, f, invited(t, a, Agent, "gpu", later), "gpu", later)
	refuses(t, "a new invitation", again, "")
	if err := check(); err != nil {
		t.Errorf("joined again in the same second: %v", err)
	}
	if err := os.WriteFile(a.Own().revoked(), []byte("garbled\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check(); err == nil || !strings.Contains(err.Error(), "the list of revoked certificates") {
		t.Errorf("a list that cannot be read lets in: %v", err)
	}
}

// TestRevocationBeatsRenewal: a certificate that is renewed before the coordinator has read the list again is revoked,
// too.
func TestRevocationBeatsRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := OpenOwn(filepath.Join(t.TempDir(), "certs"), "10.0.0.1:7700", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		f, list := machine(t), a.Own().Revocations()
		renew := func(who Identity, token string) error {
			return f.Join(func(r []byte) (cert, authority []byte, err error) {
				_, cert, err = a.Enrol(who, token, "gpu", r, time.Now(), time.Hour)
				return cert, a.Certificate(), err
			})
		}
		check := func() error {
			pair, err := f.pair()
			return cmp.Or(err, list.check(pair.Leaf))
		}
		err = renew(Identity{}, invited(t, a, Agent, "", time.Now()))
		time.Sleep(900 * time.Millisecond)
		if err = errors.Join(err, check()); err != nil { // the list is read again in a second
			t.Fatal(err)
		}
		if _, err := a.Revoke("gpu", time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(800 * time.Millisecond) // another second of certificates
		if err = errors.Join(check(), renew(Identity{Agent, "gpu"}, "")); err != nil {
			t.Fatalf("the list is read at each call: %v", err)
		}
		time.Sleep(Unnoticed)
		if err := check(); err == nil {
			t.Error("a certificate that was renewed right after its revocation is valid")
		}
	})
}

// TestRevokedAtOnce: of names that are revoked at once none is forgotten.
func TestRevokedAtOnce(t *testing.T) {
	a := own(t)
	token := invited(t, a, Agent, "", now)
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, name := range names {
		if _, err := enrolled(t, a, machine(t), token, name, now); err != "" {
			t.Fatal(err)
		}
	}
	var revoking sync.WaitGroup
	var said atomic.Int64
	for _, name := range names {
		revoking.Go(func() {
			if _, err := a.Revoke(name, now); err == nil {
				said.Add(1)
			}
		})
	}
	revoking.Wait()
	list, err := readRevoked(a.Own().revoked())
	if err != nil || len(list) != int(said.Load()) || len(list) == 0 {
		t.Errorf("%d names were revoked, and %v are: %v", said.Load(), list, err)
	}
}

// TestPeopleByName: where some people may do more than others, each joins by an invitation of the name.
func TestPeopleByName(t *testing.T) {
	a := own(t)
	all, anna, agents := invited(t, a, Client, "", now), invited(t, a, Client, "anna", now), invited(t, a, Agent, "", now)
	a.PeopleByName = true
	_, got := enrolled(t, a, machine(t), all, "anna", now)
	refuses(t, "an invitation from before", got, "ask its owner for one of your name (`spate certs invite client NAME`)")
	_, got = enrolled(t, a, machine(t), anna, "", now)
	refuses(t, "by name", got, "")
	_, got = enrolled(t, a, machine(t), agents, "gpu", now)
	refuses(t, "an agent", got, "")
}

// TestNamesAreBounded: who has an invitation cannot fill the disk with names, and the names that there are join again.
func TestNamesAreBounded(t *testing.T) {
	a := own(t)
	token, r := invited(t, a, Agent, "", now), request(t, machine(t))
	join := func(name string, at time.Time) error {
		_, _, err := a.Enrol(Identity{Client, "eve"}, token, name, r, at, time.Hour)
		return err
	}
	if err := join("first", now); err != nil {
		t.Fatal(err)
	}
	a.names.SetBurstAt(now, 1)
	if err := errors.Join(join("second", now.Add(time.Second)), join("first", now.Add(time.Second))); err != nil {
		t.Fatal(err)
	}
	if err := join("third", now.Add(time.Second)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more: %v", err)
	}
}

// TestWhatIsKept: a restart has the authority and coordinator of before, only the owner reads keys, and a program's
// certificate is renewed when a third is left.
func TestWhatIsKept(t *testing.T) {
	a := own(t)
	if _, err := OpenOwn(a.dir, "10.0.0.2:7700", now); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("two coordinators at once: %v", err)
	}
	if i, err := a.Invite(Agent, "", time.Hour, now); err != nil || i.Address != "10.0.0.1:7700" {
		t.Errorf("invited to %v: %v", i.Address, err)
	}
	_ = a.lock.Release()
	again, err := OpenOwn(a.dir, "10.0.0.2:7700", now.Add(time.Hour))
	if err != nil || !bytes.Equal(again.Certificate(), a.Certificate()) {
		t.Fatalf("another authority after a restart: %v", err)
	}
	if i, err := again.Invite(Agent, "", time.Hour, now); err != nil || i.Address != "10.0.0.2:7700" {
		t.Errorf("%v, %v", i, err)
	}
	if id, until, err := again.Own().Check(now); err != nil || id.Role != Coordinator ||
		until.Before(now.AddDate(9, 0, 0)) {
		t.Errorf("%v until %v: %v", id, until, err)
	}
	f := machine(t)
	if _, err := enrolled(t, a, f, invited(t, a, Agent, "", now), "gpu", now); err != "" {
		t.Fatal(err)
	}
	if id, _, err := f.Check(now); err != nil || id != (Identity{Agent, "gpu"}) {
		t.Errorf("%v, %v", id, err)
	}
	if at := f.RenewAt().Sub(now); at < 15*time.Hour || at > 17*time.Hour {
		t.Errorf("renewed after %v of 24h", at)
	}
	for _, path := range []string{f.Key, a.Own().Key, filepath.Join(a.dir, AuthorityKey)} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if err := JoinedFiles("/dev/null/x").Join(func([]byte) (cert, authority []byte, err error) {
		t.Error("asked for a certificate that cannot be kept")
		return nil, nil, nil
	}); err == nil {
		t.Error("kept in a folder that cannot be")
	}
	other, err := OpenAuthority(cluster(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Invite(Agent, "", time.Hour, now); err == nil || !strings.Contains(err.Error(), "without --tls-ca") {
		t.Errorf("invited by an authority without a coordinator: %v", err)
	}
}

func FuzzParseInvitation(f *testing.F) {
	f.Add("spate://10.0.0.1:7700?token=AQ&ca=sha256:" + strings.Repeat("0a", 32))
	f.Add("spate://[::1]:1?token=env:T&ca=sha256:")
	f.Fuzz(func(t *testing.T, text string) {
		if i, err := ParseInvitation(text); err == nil {
			if again, err := ParseInvitation(i.String()); err != nil || again != i {
				t.Errorf("%q: %+v, %v", text, again, err)
			}
		}
	})
}

func FuzzToken(f *testing.F) {
	a, err := OpenOwn(filepath.Join(f.TempDir(), "certs"), "h:1", now)
	if err != nil {
		f.Fatal(err)
	}
	i, err := a.Invite(Agent, "gpu", time.Hour, now)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("")
	f.Add(i.Token)
	f.Add("agent.1.2..x")
	f.Fuzz(func(t *testing.T, token string) {
		id, _, err := a.read(token, now)
		if err == nil && (id != Identity{Agent, "gpu"} || token != i.Token) {
			t.Errorf("%q lets %s in", token, id)
		}
	})
}
