package coordinator

import (
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spate-load/spate/certs"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// allowed are the roles that may call each service.
var allowed = map[string][]certs.Role{
	spatev1.ControlService_ServiceDesc.ServiceName: {certs.Agent},
	spatev1.MetricsService_ServiceDesc.ServiceName: {certs.Agent},
	spatev1.RunService_ServiceDesc.ServiceName:     {certs.Client},
}

// secured says how connections are made and what their peers may call.
type secured struct {
	creds   credentials.TransportCredentials
	options []grpc.ServerOption
}

// security returns the settings for TLS connections, or for plaintext ones, on which any peer may call anything.
// Refused connections and calls are logged.
func (c *Coordinator) security() (secured, error) {
	if !c.cfg.TLS.Given() {
		return secured{creds: insecure.NewCredentials()}, nil
	}
	creds, err := c.cfg.TLS.Server(func(from net.Addr, why error) {
		c.refusedConnections.Add(1)
		c.log.Warn("connection refused", "from", from, "reason", why)
	})
	if err != nil {
		return secured{}, err
	}
	options := certs.Authorise(allowed, func(who certs.Identity, method string) {
		c.refusedCalls.Add(1)
		c.log.Warn("call refused", "who", who.String(), "method", method)
	})
	return secured{creds, options}, nil
}
