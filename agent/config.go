package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"

	"google.golang.org/grpc"

	"github.com/spate-load/spate/agent/allow"
	"github.com/spate-load/spate/internal/retention"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Config says who an agent is, whom it obeys and what it may do.
type Config struct {
	// Name is unique among the coordinator's agents.
	Name string
	// Region the agent measures from. May be empty.
	Region string
	// Version of the program.
	Version string
	// Weight is the agent's share of the load relative to other agents'. 0 counts as 1.
	Weight uint32
	// WeightGiven says that a person chose the weight. If nobody did for any agent of a stage and all have a capacity,
	// the load is shared out by capacity.
	WeightGiven bool
	// Capacity is what calibration found that this machine does exactly. Nil: it was not calibrated.
	Capacity *spatev1.Capacity
	// MaxStreams is the most requests in flight the agent takes on. A closed loop that asks for more is rejected; the
	// arrivals of an open loop wait for a place, which shows as their send delay. A session holds its place from its
	// first turn to its last, pauses included. 0: as many as there may be open files.
	MaxStreams uint32
	// MaxRate is the most requests per second the agent takes on. A share of an open loop that has more on average is
	// rejected, its peaks by chance not counted; a closed loop or a replay that begins more in a whole second ends
	// there. 0: not limited.
	MaxRate float64
	// FileShares is into how many shares the process's open files are split, of which the agent takes one: for agents
	// that are not alone in their process. 0 counts as 1.
	FileShares int
	// SourceAddresses of this machine that connections to targets are made from, in turn. Each has a range of ports of
	// its own towards each endpoint. Empty: what the system picks.
	SourceAddresses []string
	// Coordinator returns the coordinator's address, a gRPC target such as "passthrough:///10.0.0.1:7070". It is asked
	// before each attempt to connect, so that it may follow a coordinator that moves. It may block until it knows one
	// or ctx ends.
	Coordinator func(ctx context.Context) (string, error)
	// DialOptions of the connection to the coordinator. Transport credentials must be among them.
	DialOptions []grpc.DialOption
	// BulkOptions are added to them for the second connection, which measurements and datasets take, so that heartbeats
	// never wait for those. Credentials that yield belong there, see package yielding.
	BulkOptions []grpc.DialOption
	// AllowedTargets are the hosts, networks and ports that the agent may send anything to, as allow.Parse reads them.
	// Empty: any host.
	AllowedTargets []string
	// DatasetDir keeps the rows of plans' files, each under its hash. What is not there is fetched from the
	// coordinator. Several agents may share it. Empty: the agent takes no workload that needs one.
	DatasetDir string
	// KeepDatasets are the limits of DatasetDir: datasets beyond them are deleted, the one that was used longest ago
	// first, at the start and whenever one was fetched; those used within the hour stay. One that is larger than all
	// that may be kept is not fetched. Zero: none is deleted.
	KeepDatasets retention.Limits
	// NewWatch returns a watch for one worker, which plays one request at a time. It is called whenever a worker is
	// made. Nil: nobody watches, and it costs nothing.
	NewWatch func() Watch
	// Logger takes what a person should know.
	Logger *slog.Logger
}

// Validate returns all that is wrong with the configuration.
func (c *Config) Validate() error {
	var wrong []error
	if c.Name == "" {
		wrong = append(wrong, errors.New("name: is empty; give each agent a name of its own"))
	}
	if c.Coordinator == nil {
		wrong = append(wrong, errors.New("coordinator: no way to find its address is given"))
	}
	if !(c.MaxRate >= 0) || math.IsInf(c.MaxRate, 1) {
		wrong = append(wrong, fmt.Errorf("max rate: %v is no number of requests per second; 0 is no limit", c.MaxRate))
	}
	if c.Logger == nil {
		wrong = append(wrong, errors.New("logger: is missing"))
	}
	if _, err := sourceAddresses(c.SourceAddresses); err != nil {
		wrong = append(wrong, err)
	}
	if _, err := allow.Parse(c.AllowedTargets); err != nil {
		wrong = append(wrong, fmt.Errorf("allowed targets: %w", err))
	}
	return errors.Join(wrong...)
}
