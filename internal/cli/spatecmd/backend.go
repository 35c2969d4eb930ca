package spatecmd

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/internal/cli/settings"
	"github.com/spate-load/spate/internal/reason"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// backend is what a run runs on: a remote coordinator, or one embedded in this process with its agents. Both are called
// through the same services, so that everything behind them is the same.
type backend struct {
	conn      *grpc.ClientConn
	address   string // empty: embedded
	minAgents uint32
	close     func()
}

// backend connects to the coordinator that the flags name, or starts the embedded one.
func (f *runFlags) backend(ctx context.Context, logs io.Writer) (*backend, error) {
	if f.coordinator == "" {
		return f.local.embed(ctx, logs, f.results.out, nil)
	}
	conn, err := dial(f.coordinator, &f.tls)
	if err != nil {
		return nil, err
	}
	return &backend{conn: conn, address: f.coordinator, minAgents: f.minAgents, close: func() { _ = conn.Close() }}, nil
}

// dial connects to a coordinator's services. It detects a silent coordinator, so that nobody waits for one for ever.
func dial(address string, tls *settings.TLS) (*grpc.ClientConn, error) {
	if err := settings.CheckAddress(address); err != nil {
		return nil, badInputf("--coordinator %w", err)
	}
	creds, err := tls.Dial(certs.Client)
	if err != nil {
		return nil, badInputf("--tls-cert: %w", err)
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnecting, MinConnectTimeout: 5 * time.Second}))
	if err != nil {
		return nil, badInputf("--coordinator %q: %w", address, err)
	}
	return conn, nil
}

// reconnecting is how soon a broken connection is retried: a person waits for it.
var reconnecting = backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
	MaxDelay: 2 * time.Second}

// unreachable returns an error that says what to do about a coordinator that cannot be reached. Nothing was started.
func unreachable(address string, err error) error {
	if status.Code(err) == codes.PermissionDenied {
		return badInputf("the coordinator at %s refuses this: %s", address, status.Convert(err).Message())
	}
	return badInputf("the coordinator at %s cannot be reached: %s", address, reason.Of(err))
}

// neverConnected reports whether a call failed before it can have reached the coordinator, judging by gRPC's message.
func neverConnected(message string) bool {
	return strings.Contains(message, "Error while dialing: ") || strings.Contains(message, "name resolver error") ||
		strings.Contains(message, "handshake failed")
}

// onThisMachine returns an error if an agent of the run may not reach this machine's loopback.
func (b *backend) onThisMachine(ctx context.Context) error {
	if b.address == "" {
		return nil
	}
	here, err := os.Hostname()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	agents, err := spatev1.NewRunServiceClient(b.conn).ListAgents(ctx, &spatev1.ListAgentsRequest{})
	if err != nil {
		return unreachable(b.address, err)
	}
	for _, a := range agents.GetAgents() {
		if host := a.GetAgent().GetHost(); host != "" && host != here {
			return badInputf("the plan asks for the built-in simulator, which listens on this machine's loopback, but agent %s runs on %s: start `spate simulate` where all agents reach it and name its endpoints in the plan",
				a.GetAgent().GetName(), host)
		}
	}
	return nil
}
