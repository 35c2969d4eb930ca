package access

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/certs"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runs answers one call at once and another one only when it is cancelled.
type runs struct {
	spatev1.UnimplementedRunServiceServer
}

func (runs) ListAgents(context.Context, *spatev1.ListAgentsRequest) (*spatev1.ListAgentsResponse, error) {
	return &spatev1.ListAgentsResponse{}, nil
}

func (runs) FollowRun(_ *spatev1.FollowRunRequest, stream spatev1.RunService_FollowRunServer) error {
	if err := stream.Send(&spatev1.FollowRunResponse{}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// serve serves on a loopback port under the limits.
func serve(t *testing.T, limits Limits) (a *Admission, address string) {
	t.Helper()
	a = NewAdmission(limits, slog.New(slog.DiscardHandler))
	options, err := a.Options(certs.Files{}, false)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	spatev1.RegisterRunServiceServer(server, runs{})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return a, l.Addr().String()
}

// dial opens a connection, which is closed with the test.
func dial(t *testing.T, address string) spatev1.RunServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return spatev1.NewRunServiceClient(conn)
}

// ask makes one call over a connection of its own.
func ask(t *testing.T, address string) error {
	t.Helper()
	_, err := dial(t, address).ListAgents(t.Context(), &spatev1.ListAgentsRequest{})
	return err
}

func TestConnectionsAreBounded(t *testing.T) {
	a, address := serve(t, Limits{Connections: 2})
	for n := range 2 {
		if err := ask(t, address); err != nil {
			t.Fatalf("connection %d: %v", n, err)
		}
	}
	if err := ask(t, address); status.Code(err) != codes.Unavailable {
		t.Errorf("connection 2: %v", err)
	}
	if got := a.Limited.Load(); got < 1 {
		t.Errorf("%d refused", got)
	}
}

func TestAConnectionThatWasClosedMakesRoom(t *testing.T) {
	a, address := serve(t, Limits{Connections: 1})
	for range 5 {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := spatev1.NewRunServiceClient(conn).ListAgents(t.Context(),
			&spatev1.ListAgentsRequest{}); err != nil {
			t.Error(err)
		}
		_ = conn.Close()
		for a.connections.Load() > 0 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond) // the server may notice the closed connection later
		}
	}
}

func TestStreamsAreBounded(t *testing.T) {
	_, address := serve(t, Limits{Streams: 2})
	client := dial(t, address)
	follow := func() error {
		stream, err := client.FollowRun(t.Context(), &spatev1.FollowRunRequest{})
		if err != nil {
			return err
		}
		_, err = stream.Recv()
		return err
	}
	for n := range 2 {
		if err := follow(); err != nil {
			t.Fatalf("stream %d: %v", n, err)
		}
	}
	if err := follow(); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "2 streams") {
		t.Errorf("a third stream: %v", err)
	}
}

// Strangers cannot fill the disk with lines about refusals, but all of them count.
func TestRefusalsAreBounded(t *testing.T) {
	refusals = rate.NewLimiter(refusals.Limit(), refusals.Burst()) // the test may run again in one process
	var text strings.Builder
	for range 5000 {
		tell(slog.New(slog.NewTextHandler(&text, nil)))
	}
	if n := strings.Count(text.String(), "\n"); n < 1 || n > 1500 {
		t.Errorf("%d lines", n)
	}
}
