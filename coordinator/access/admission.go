package access

import (
	"log/slog"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spate-load/spate/certs"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Admission applies the limits and checks the certificates of a server's peers. Its methods may be called concurrently.
type Admission struct {
	// Limited counts connections, streams and messages beyond the limits.
	Limited atomic.Uint64
	// ConnectionsRefused counts connections without a certificate of the cluster.
	ConnectionsRefused atomic.Uint64
	// CallsRefused counts calls that the peer's certificate does not allow.
	CallsRefused atomic.Uint64

	limits               Limits
	log                  *slog.Logger
	connections, streams atomic.Int64
}

// NewAdmission returns the admission of one server. Limits that are not set take their defaults.
func NewAdmission(limits Limits, log *slog.Logger) *Admission {
	return &Admission{limits: limits.withDefaults(), log: log}
}

// MostAgents returns how many agents there is room for. An agent has two connections.
func (a *Admission) MostAgents() int { return a.limits.Connections / 2 }

// allowed are the roles that may call each service.
var allowed = map[string][]certs.Role{
	spatev1.ControlService_ServiceDesc.ServiceName: {certs.Agent},
	spatev1.MetricsService_ServiceDesc.ServiceName: {certs.Agent},
	spatev1.RunService_ServiceDesc.ServiceName:     {certs.Client},
}

// Options returns the server options that apply the limits. With certificate files, connections are encrypted, and a
// peer may call what the role in its certificate allows; without them, any peer may call anything. Options fails if the
// files cannot be read.
func (a *Admission) Options(files certs.Files) ([]grpc.ServerOption, error) {
	if !files.Given() {
		return a.options(insecure.NewCredentials()), nil
	}
	creds, err := files.Server(func(from net.Addr, why error) {
		a.ConnectionsRefused.Add(1)
		a.log.Warn("connection refused", "from", from, "reason", why)
	})
	if err != nil {
		return nil, err
	}
	return append(a.options(creds), certs.Authorise(allowed, func(who certs.Identity, method string) {
		a.CallsRefused.Add(1)
		a.log.Warn("call refused", "who", who.String(), "method", method)
	})...), nil
}
