package admission

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/certs"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Only a relay's certificate opens the service of relays: an agent could otherwise speak for all others. An agent
// accepts a relay in place of a coordinator, a client does not.
func TestRolesOfRelays(t *testing.T) {
	dir := t.TempDir()
	if err := certs.Init(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	own := map[certs.Role]certs.Files{}
	for _, role := range []certs.Role{certs.Coordinator, certs.Relay, certs.Agent, certs.Client} {
		files, err := certs.Issue(dir, role, string(role), nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		own[role] = files
	}
	call := func(server, caller certs.Role) codes.Code {
		options, err := New(Limits{}, slog.New(slog.DiscardHandler)).Options(own[server], server)
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer(options...)
		defer s.Stop()
		spatev1.RegisterRelayServiceServer(s, spatev1.UnimplementedRelayServiceServer{})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Serve(l) }() // ends with Stop
		creds, err := own[caller].Dial(caller)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(creds))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		stream, err := spatev1.NewRelayServiceClient(conn).RelayControl(t.Context())
		if err == nil {
			_, err = stream.Recv()
		}
		return status.Code(err)
	}
	for _, tc := range []struct {
		server, caller certs.Role
		want           codes.Code
	}{
		{certs.Coordinator, certs.Relay, codes.Unimplemented}, // it may: the test's service does nothing
		{certs.Coordinator, certs.Agent, codes.PermissionDenied},
		{certs.Coordinator, certs.Client, codes.PermissionDenied},
		{certs.Relay, certs.Agent, codes.PermissionDenied}, // by its role: the handshake succeeds
		{certs.Relay, certs.Client, codes.Unavailable},
	} {
		if got := call(tc.server, tc.caller); got != tc.want {
			t.Errorf("%s to %s: %v, want %v", tc.caller, tc.server, got, tc.want)
		}
	}
}
