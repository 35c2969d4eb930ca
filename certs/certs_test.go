package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster makes an authority and returns its directory.
func cluster(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "certs")
	if err := Init(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func issued(t *testing.T, dir string, role Role, name string, now time.Time) Files {
	t.Helper()
	f, err := Issue(dir, role, name, []string{"coordinator.example", "10.0.0.1"}, now)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// server serves gRPC's health service to agents, and counts the connections that it refuses.
type server struct {
	address   string
	strangers chan struct{} // one for each refused connection
	refused   atomic.Int32
}

// watched counts handshakes that fail.
type watched struct {
	credentials.TransportCredentials
	failed chan struct{}
}

func (w *watched) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := w.TransportCredentials.ServerHandshake(conn)
	if err != nil {
		w.failed <- struct{}{}
	}
	return c, info, err
}

func (w *watched) Clone() credentials.TransportCredentials { return w }

func serve(t *testing.T, f Files) *server {
	t.Helper()
	s := &server{strangers: make(chan struct{}, 1000)}
	config, err := f.Server(false)
	if err != nil {
		t.Fatal(err)
	}
	services := map[string][]Role{healthpb.Health_ServiceDesc.ServiceName: {Agent}}
	refused := func(Identity, string) { s.refused.Add(1) }
	creds := &watched{credentials.NewTLS(config), s.strangers}
	options := append(Authorise(services, f.Revocations(), refused), grpc.Creds(creds))
	g := grpc.NewServer(options...)
	healthpb.RegisterHealthServer(g, health.NewServer())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// call makes a unary call and a streaming call, and returns the first error.
func call(t *testing.T, address string, creds credentials.TransportCredentials) error {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c := healthpb.NewHealthClient(conn)
	if _, err := c.Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		return err
	}
	stream, err := c.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

func dial(t *testing.T, f Files, role Role) credentials.TransportCredentials {
	t.Helper()
	creds, err := f.Dial(role)
	if err != nil {
		t.Fatal(err)
	}
	return creds
}

// TestRolesDecide: an agent may call an agent's service, a client may not, and only certificates decide that.
func TestRolesDecide(t *testing.T) {
	dir := cluster(t)
	s := serve(t, issued(t, dir, Coordinator, "coordinator", time.Now()))
	if err := call(t, s.address, dial(t, issued(t, dir, Agent, "a", time.Now()), Agent)); err != nil {
		t.Errorf("an agent: %v", err)
	}
	err := call(t, s.address, dial(t, issued(t, dir, Client, "c", time.Now()), Client))
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "client c does not allow") {
		t.Errorf("a client: %v", err)
	}
	if n, m := len(s.strangers), s.refused.Load(); n != 0 || m != 1 {
		t.Errorf("%d connections and %d calls refused, want 0 and 1", n, m)
	}
}

// TestStrangersAreRefused: without a valid certificate of this authority no program can connect, and programs connect
// only to a coordinator of this authority.
func TestStrangersAreRefused(t *testing.T) {
	dir, other := cluster(t), cluster(t)
	s := serve(t, issued(t, dir, Coordinator, "coordinator", time.Now()))
	foreign, old := issued(t, other, Agent, "foreign", time.Now()),
		issued(t, dir, Agent, "old", time.Now().Add(-2*Validity))
	foreign.Authority = filepath.Join(dir, AuthorityCert)
	present := func(f Files) credentials.TransportCredentials {
		pair, err := f.pair()
		if err != nil {
			t.Fatal(err)
		}
		return credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{*pair}})
	}
	cases := map[string]credentials.TransportCredentials{
		"plaintext":           insecure.NewCredentials(),
		"no certificate":      credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}),
		"another authority":   present(foreign),
		"expired":             present(old),
		"TLS 1.2":             credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}),
		"another coordinator": present(issued(t, dir, Coordinator, "second", time.Now())),
	}
	for what, creds := range cases {
		if err := call(t, s.address, creds); err == nil {
			t.Errorf("%s: let in", what)
		}
	}
	// A caller may learn of the refusal before the server has counted it.
	for n := range len(cases) {
		select {
		case <-s.strangers:
		case <-time.After(30 * time.Second):
			t.Fatalf("%d connections counted as refused of %d", n, len(cases))
		}
	}

	impostor := serve(t, issued(t, other, Coordinator, "impostor", time.Now()))
	if err := call(t, impostor.address, dial(t, issued(t, dir, Agent, "a", time.Now()), Agent)); err == nil {
		t.Error("talks to a coordinator of another authority")
	}
}

// TestARenewedCertificateCountsAtOnce: the next connection uses the renewed certificate.
func TestARenewedCertificateCountsAtOnce(t *testing.T) {
	dir := cluster(t)
	s := serve(t, issued(t, dir, Coordinator, "coordinator", time.Now()))
	f := issued(t, dir, Agent, "a", time.Now())
	creds := dial(t, f, Agent)
	for _, path := range []string{f.Cert, f.Key} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := call(t, s.address, creds); err == nil {
		t.Error("works with files that are gone")
	}
	issued(t, dir, Agent, "a", time.Now())
	if err := call(t, s.address, creds); err != nil {
		t.Errorf("with the new one: %v", err)
	}
}

// day returns the last day on which a program's certificate is valid.
func day(f Files) string {
	_, until, _ := f.Check(time.Now())
	return until.Format(time.DateOnly)
}

// TestFilesAreChecked: problems with a program's own files are reported before it connects.
func TestFilesAreChecked(t *testing.T) {
	dir := cluster(t)
	agent, client := issued(t, dir, Agent, "a", time.Now()), issued(t, dir, Client, "c", time.Now())
	mixed, gone, swapped, foreign := agent, agent, agent, agent
	mixed.Key, gone.Cert, swapped.Authority = client.Key, filepath.Join(dir, "none.crt"), agent.Key
	foreign.Authority = issued(t, cluster(t), Agent, "a", time.Now()).Authority
	old := issued(t, dir, Agent, "old", time.Now().Add(-2*Validity))
	for what, c := range map[string]struct {
		f    Files
		says string
	}{
		"key of another": {mixed, "private key does not match"},
		"missing":        {gone, "no such file"},
		"no authority":   {swapped, "no certificate in PEM form"},
		"foreign":        {foreign, agent.Cert + " is from another authority than " + foreign.Authority},
		"expired":        {old, old.Cert + ": x509: certificate has expired"},
		"wrong role": {client, "is the certificate of client c (valid until " + day(client) +
			"): an agent needs one of its own"},
	} {
		if _, err := c.f.Dial(Agent); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if id, until, err := agent.Check(time.Now()); err != nil || id != (Identity{Agent, "a"}) ||
		until.Before(time.Now().Add(Validity-time.Hour)) {
		t.Errorf("%v until %v, %v", id, until, err)
	}
}

// TestNothingIsOverwritten: existing files are kept, and only their owner may read keys.
func TestNothingIsOverwritten(t *testing.T) {
	dir := cluster(t)
	if err := Init(dir, time.Now()); err == nil {
		t.Error("a second authority over the first")
	}
	f := issued(t, dir, Agent, "a", time.Now())
	if _, err := Issue(dir, Agent, "a", nil, time.Now()); err == nil {
		t.Error("a second certificate over the first")
	}
	for _, path := range []string{f.Key, filepath.Join(dir, AuthorityKey)} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

func TestIssueRefuses(t *testing.T) {
	dir := cluster(t)
	for _, name := range []string{"", "ca", "../x", "a b", ".hidden"} {
		if _, err := Issue(dir, Agent, name, nil, time.Now()); err == nil ||
			!strings.Contains(err.Error(), "want letters") {
			t.Errorf("name %q: %v", name, err)
		}
	}
	if _, err := Issue(t.TempDir(), Agent, "a", nil, time.Now()); err == nil ||
		!strings.Contains(err.Error(), "spate certs init") {
		t.Errorf("without an authority: %v", err)
	}
	var missing *os.PathError
	if err := os.Remove(filepath.Join(dir, AuthorityKey)); err != nil {
		t.Fatal(err)
	}
	if _, err := Issue(dir, Agent, "a", nil, time.Now()); !errors.As(err, &missing) {
		t.Errorf("without the authority's key: %v", err)
	}
}
