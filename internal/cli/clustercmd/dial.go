package clustercmd

import (
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/reason"
)

// Dial connects to a coordinator's services. It detects a silent coordinator, so that no command waits for one for
// ever.
func Dial(address string, tls *command.TLS) (*grpc.ClientConn, error) {
	creds, err := tls.Dial(certs.Client)
	if err != nil {
		return nil, command.BadInputf("--tls-cert: %w", err)
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnecting, MinConnectTimeout: 5 * time.Second}))
	if err != nil {
		return nil, command.BadInputf("--coordinator %q: %w", address, err)
	}
	return conn, nil
}

// maxMessage is the largest answer that is read, in bytes: the list of 100,000 agents, or the start of their run.
// gRPC's default of 4 MiB is too little for 20,000.
const maxMessage = 64 << 20

// reconnecting is how soon a broken connection is retried: a person waits for it.
var reconnecting = backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
	MaxDelay: 2 * time.Second}

// Unreachable returns an error that says what to do about a coordinator that cannot be reached, that refused a call, or
// that failed in it. Nothing was started.
func Unreachable(address string, err error) error {
	switch status.Code(err) {
	case codes.PermissionDenied, codes.InvalidArgument, codes.FailedPrecondition, codes.NotFound,
		codes.ResourceExhausted:
		return command.BadInputf("the coordinator at %s refused: %s", address, status.Convert(err).Message())
	case codes.Internal:
		return command.BadInputf("the coordinator at %s failed: %s", address, status.Convert(err).Message())
	}
	return command.BadInputf("the coordinator at %s cannot be reached: %s", address, reason.Of(err))
}

// NeverConnected reports whether a call failed before it can have reached the coordinator, judging by gRPC's message.
func NeverConnected(message string) bool {
	return strings.Contains(message, "Error while dialing: ") || strings.Contains(message, "name resolver error") ||
		strings.Contains(message, "handshake failed")
}
