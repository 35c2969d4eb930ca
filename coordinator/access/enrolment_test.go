package access

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/certs"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// echo answers each push.
type echo struct {
	spatev1.UnimplementedMetricsServiceServer
}

func (echo) Push(stream spatev1.MetricsService_PushServer) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		if err := stream.Send(&spatev1.PushResponse{}); err != nil {
			return err
		}
	}
}

// door is a server with an authority of its own.
type door struct {
	t         *testing.T
	authority *certs.Authority
	admission *Admission
	address   string
}

func open(t *testing.T) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{t: t, address: l.Addr().String(), admission: NewAdmission(Limits{}, slog.New(slog.DiscardHandler))}
	if d.authority, err = certs.OpenOwn(filepath.Join(t.TempDir(), "certs"), d.address, time.Now()); err != nil {
		t.Fatal(err)
	}
	options, err := d.admission.Options(d.authority.Own(), true)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(options...)
	spatev1.RegisterMetricsServiceServer(s, echo{})
	spatev1.RegisterRunServiceServer(s, spatev1.UnimplementedRunServiceServer{})
	spatev1.RegisterEnrolmentServiceServer(s, &Enrolment{Authority: d.authority, Validity: time.Hour,
		Log: slog.New(slog.DiscardHandler), Gossip: "10.0.0.1:7946",
		GossipKeys: func() (string, error) { return "key", nil }})
	go func() { _ = s.Serve(l) }() // ends with Stop
	t.Cleanup(s.Stop)
	return d
}

func (d *door) dial(creds credentials.TransportCredentials) *grpc.ClientConn {
	d.t.Helper()
	conn, err := grpc.NewClient(d.address, grpc.WithTransportCredentials(creds))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (d *door) invitation(role certs.Role) certs.Invitation {
	d.t.Helper()
	i, err := d.authority.Invite(role, "", time.Hour, time.Now())
	if err != nil {
		d.t.Fatal(err)
	}
	return i
}

// member joins as a role and returns its files and what it was told.
func (d *door) member(role certs.Role) (certs.Files, *spatev1.EnrolResponse) {
	d.t.Helper()
	f, i := certs.JoinedFiles(filepath.Join(d.t.TempDir(), "joined")), d.invitation(role)
	var a *spatev1.EnrolResponse
	if err := f.Join(func(r []byte) (cert, authority []byte, err error) {
		a, err = spatev1.NewEnrolmentServiceClient(d.dial(i.Dial())).Enrol(d.t.Context(),
			&spatev1.EnrolRequest{Token: i.Token, Name: "m", SigningRequest: r})
		return a.GetCertificate(), a.GetAuthority(), err
	}); err != nil {
		d.t.Fatal(err)
	}
	return f, a
}

// renew renews the certificate of a connection's program.
func renew(ctx context.Context, conn *grpc.ClientConn, f certs.Files) error {
	return f.Join(func(r []byte) (cert, authority []byte, err error) {
		a, err := spatev1.NewEnrolmentServiceClient(conn).Enrol(ctx, &spatev1.EnrolRequest{Name: "other", SigningRequest: r})
		return a.GetCertificate(), a.GetAuthority(), err
	})
}

func (d *door) as(f certs.Files, role certs.Role) *grpc.ClientConn {
	d.t.Helper()
	creds, err := f.Dial(role)
	if err != nil {
		d.t.Fatal(err)
	}
	return d.dial(creds)
}

// A peer without a certificate can only join, and only agents learn the gossip keys. Members reach what their role may,
// and renew their certificates without a token.
func TestStrangersCanOnlyJoin(t *testing.T) {
	d := open(t)
	stranger := d.dial(d.invitation(certs.Agent).Dial())
	_, list := spatev1.NewRunServiceClient(stranger).ListRuns(t.Context(), &spatev1.ListRunsRequest{})
	if status.Code(list) != codes.PermissionDenied || !strings.Contains(list.Error(), "need a certificate of the cluster") {
		t.Errorf("a stranger lists runs: %v", list)
	}
	push, err := spatev1.NewMetricsServiceClient(stranger).Push(t.Context())
	if err == nil {
		_, err = push.Recv()
	}
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("a stranger pushes: %v", err)
	}
	_, err = spatev1.NewEnrolmentServiceClient(stranger).Enrol(t.Context(), &spatev1.EnrolRequest{Name: "m"})
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("a stranger joins without a token: %v", err)
	}

	agent, told := d.member(certs.Agent)
	if told.GetGossip() != "10.0.0.1:7946" || told.GetGossipKeys() != "key" {
		t.Errorf("an agent is told %v", told)
	}
	person, told := d.member(certs.Client)
	if told.GetGossip() != "" || told.GetGossipKeys() != "" {
		t.Errorf("a person is told the gossip keys: %v", told)
	}
	if _, err := spatev1.NewRunServiceClient(d.as(person, certs.Client)).ListRuns(t.Context(),
		&spatev1.ListRunsRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a person lists runs: %v", err)
	}
	if err := renew(t.Context(), d.as(agent, certs.Agent), agent); err != nil {
		t.Errorf("renewal: %v", err)
	}
	if id, _, err := agent.Check(time.Now()); err != nil || id.Name != "m" {
		t.Errorf("renewed for %v: %v", id, err)
	}
}

// Somebody in between, or a coordinator with a new authority, is told from the one of the invitation.
func TestAnotherAuthorityIsRefused(t *testing.T) {
	d, other := open(t), open(t)
	_, err := spatev1.NewEnrolmentServiceClient(other.dial(d.invitation(certs.Agent).Dial())).Enrol(t.Context(),
		&spatev1.EnrolRequest{})
	if err == nil || !strings.Contains(err.Error(), "not that of the invitation: its owner made a new one, or somebody stands "+
		"between") {
		t.Errorf("joined another cluster: %v", err)
	}
}

// Who stands between with what a member can get, its own certificate and the one of the authority, is refused.
func TestMembersCannotStandBetween(t *testing.T) {
	d := open(t)
	agent, _ := d.member(certs.Agent)
	member, err := tls.LoadX509KeyPair(agent.Cert, agent.Key)
	if err != nil {
		t.Fatal(err)
	}
	other := open(t).authority.Own()
	foreign, err := tls.LoadX509KeyPair(other.Cert, other.Key)
	if err != nil {
		t.Fatal(err)
	}
	forged := signedBy(t, member)
	root, leaf := d.authority.Certificate(), foreign.Certificate[0]
	for what, c := range map[string]struct {
		key   crypto.PrivateKey
		chain [][]byte
		says  string
	}{
		"a member":                   {member.PrivateKey, [][]byte{member.Certificate[0], root}, "not a coordinator but agent m"},
		"a member without the chain": {member.PrivateKey, member.Certificate[:1], "not that of the invitation"},
		"another cluster":            {foreign.PrivateKey, [][]byte{leaf, root}, "signed by unknown authority"},
		"many":                       {foreign.PrivateKey, append(slices.Repeat([][]byte{leaf}, 100), root), "signed by unknown authority"},
		"no root at the end":         {foreign.PrivateKey, [][]byte{leaf, root, leaf}, "not that of the invitation"},
		"signed by a member":         {forged.PrivateKey, append(forged.Certificate, member.Certificate[0], root), "authority"},
	} {
		pair := tls.Certificate{Certificate: c.chain, PrivateKey: c.key}
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if conn, err := l.Accept(); err == nil {
				_ = conn.(*tls.Conn).Handshake() // fails, as it should
				_ = conn.Close()
			}
		}()
		raw, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = d.invitation(certs.Agent).Dial().ClientHandshake(t.Context(), "h", raw)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
		_, _ = raw.Close(), l.Close()
	}
}

// signedBy returns a coordinator's certificate that a member has signed.
func signedBy(t *testing.T, member tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	claim := &x509.Certificate{NotAfter: time.Now().Add(time.Hour), SerialNumber: big.NewInt(1),
		URIs: []*url.URL{{Scheme: "spate", Host: "coordinator", Path: "/coordinator"}}}
	der, err := x509.CreateCertificate(rand.Reader, claim, member.Leaf, &key.PublicKey, member.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A stream that is open when its certificate is revoked ends at its next message, and further calls are refused.
func TestRevocationEndsStreams(t *testing.T) {
	d := open(t)
	agent, _ := d.member(certs.Agent)
	conn := d.as(agent, certs.Agent)
	stream, err := spatev1.NewMetricsServiceClient(conn).Push(t.Context())
	push := func() error {
		if err := stream.Send(&spatev1.PushRequest{}); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		_, err := stream.Recv()
		return err
	}
	if err = errors.Join(err, push()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.authority.Revoke("agent/m", time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err = nil; err == nil; { // it is renewed until the coordinator notices
		err = renew(ctx, conn, agent)
	}
	for call, err := range map[string]error{"renewal": err, "open stream": push()} {
		if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "agent m was revoked") {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// What peers without a certificate take is bounded, and they leave room again.
func TestStrangersAreBounded(t *testing.T) {
	d := open(t)
	i := d.invitation(certs.Agent)
	join := func(conn *grpc.ClientConn, size int) error {
		_, err := spatev1.NewEnrolmentServiceClient(conn).Enrol(t.Context(),
			&spatev1.EnrolRequest{Token: i.Token, Name: strings.Repeat("n", size)})
		return err
	}
	if err := join(d.dial(i.Dial()), 2*strangerBytes); status.Code(err) != codes.Unavailable {
		t.Errorf("a message of %d bytes is read: %v", 2*strangerBytes, err)
	}
	conns := make([]*grpc.ClientConn, mostStrangers)
	for n := range conns {
		conns[n] = d.dial(i.Dial())
		if err := join(conns[n], 1); status.Code(err) != codes.PermissionDenied {
			t.Fatalf("stranger %d: %v", n, err)
		}
	}
	if err := join(d.dial(i.Dial()), 1); status.Code(err) != codes.Unavailable || d.admission.Limited.Load() == 0 {
		t.Errorf("one more: %v", err)
	}
	_ = conns[0].Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := errors.New("not tried")
	for status.Code(err) != codes.PermissionDenied && ctx.Err() == nil {
		err = join(d.dial(i.Dial()), 1)
	}
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("after one has left: %v", err)
	}
}
