package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"google.golang.org/grpc"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/coordinator/membership"
	"github.com/spate-load/spate/internal/retention"
	"github.com/spate-load/spate/plans/naming"
)

// Config configures a relay.
type Config struct {
	// Name of the relay, for the coordinator, lists of agents and logs.
	Name string
	// Coordinator returns the coordinator's address, as a gRPC target. It is called before each attempt to connect, and
	// may block until it knows an address or ctx ends.
	Coordinator func(ctx context.Context) (string, error)
	// DialOptions are for both connections to the coordinator. They must include transport credentials.
	DialOptions []grpc.DialOption
	// BulkOptions are added to DialOptions for the connection that carries measurements and datasets.
	BulkOptions []grpc.DialOption
	// TLS names the relay's certificate and the cluster's certificate authority: with it, agents need certificates.
	TLS certs.Files
	// PassOn passes each snapshot on as it is, so that latencies of single agents are known, too.
	PassOn bool
	// DatasetDir keeps datasets for the relay's agents, within KeepDatasets.
	DatasetDir   string
	KeepDatasets retention.Limits
	// Gossip lets agents find the relay as they find a coordinator. The relay sets the role and port in Meta. Nil:
	// agents must be given the address.
	Gossip *membership.Config
	// Logger receives log messages.
	Logger *slog.Logger
}

// Validate returns all errors in the configuration.
func (c Config) Validate() error {
	var errs []error
	if err := naming.CheckName(c.Name); err != nil {
		errs = append(errs, fmt.Errorf("relay name %w", err))
	}
	if c.Coordinator == nil || c.Logger == nil || c.DatasetDir == "" {
		errs = append(errs, errors.New("relay: a coordinator, a logger and a directory for datasets are needed"))
	}
	if c.Gossip != nil {
		errs = append(errs, c.Gossip.Validate())
	}
	return errors.Join(errs...)
}
