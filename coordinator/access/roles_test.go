package access

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

// An agent's certificate opens the services of agents only, a client's only that of clients.
func TestRolesOpenTheirServicesOnly(t *testing.T) {
	dir := t.TempDir()
	if err := certs.Init(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	own := map[certs.Role]certs.Files{}
	for _, role := range []certs.Role{certs.Coordinator, certs.Agent, certs.Client} {
		files, err := certs.Issue(dir, role, string(role), nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		own[role] = files
	}
	options, err := NewAdmission(Limits{}, slog.New(slog.DiscardHandler)).Options(own[certs.Coordinator], false)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(options...)
	defer s.Stop()
	spatev1.RegisterControlServiceServer(s, spatev1.UnimplementedControlServiceServer{})
	spatev1.RegisterMetricsServiceServer(s, spatev1.UnimplementedMetricsServiceServer{})
	spatev1.RegisterRunServiceServer(s, spatev1.UnimplementedRunServiceServer{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()                                  // ends with Stop
	const may, mayNot = codes.Unimplemented, codes.PermissionDenied // the test's services do nothing
	for role, want := range map[certs.Role][3]codes.Code{
		certs.Agent: {may, may, mayNot}, certs.Client: {mayNot, mayNot, may},
	} {
		creds, err := own[role].Dial(role)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(creds))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, probe := spatev1.NewControlServiceClient(conn).ProbeClock(t.Context(), &spatev1.ProbeClockRequest{})
		push, pushed := spatev1.NewMetricsServiceClient(conn).Push(t.Context())
		if pushed == nil {
			_, pushed = push.Recv()
		}
		_, list := spatev1.NewRunServiceClient(conn).ListRuns(t.Context(), &spatev1.ListRunsRequest{})
		if got := [3]codes.Code{status.Code(probe), status.Code(pushed), status.Code(list)}; got != want {
			t.Errorf("%s: control, metrics, runs: %v, want %v", role, got, want)
		}
	}
}
