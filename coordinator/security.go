package coordinator

import (
	"net"

	"google.golang.org/grpc"

	"github.com/spate-load/spate/certs"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// allowed are the roles that may call each service.
var allowed = map[string][]certs.Role{
	spatev1.ControlService_ServiceDesc.ServiceName: {certs.Agent},
	spatev1.MetricsService_ServiceDesc.ServiceName: {certs.Agent},
	spatev1.RunService_ServiceDesc.ServiceName:     {certs.Client},
}

// security returns the server's options for encrypted connections, none if they are plain. What is refused is logged.
func (c *Coordinator) security() ([]grpc.ServerOption, error) {
	if !c.cfg.TLS.Given() {
		return nil, nil
	}
	creds, err := c.cfg.TLS.Server(func(from net.Addr, why error) {
		c.strangers.Add(1)
		c.log.Warn("connection refused", "from", from, "reason", why)
	})
	if err != nil {
		return nil, err
	}
	options := certs.Authorise(allowed, func(who certs.Identity, method string) {
		c.trespass.Add(1)
		c.log.Warn("call refused", "who", who.String(), "method", method)
	})
	return append(options, grpc.Creds(creds)), nil
}
