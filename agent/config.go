package agent

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/spate-load/spate/agent/allow"
	"github.com/spate-load/spate/agent/executor"
	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/reason"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Config says who an agent is, which coordinator it serves and what it may do.
type Config struct {
	// Name is unique among the coordinator's agents.
	Name string
	// Region is where the agent measures from. It may be empty.
	Region string
	// Labels are what plans select agents by, besides the region.
	Labels map[string]string
	// Version is the program's version.
	Version string
	// Weight is the size of the agent's stripe relative to other agents' stripes. 0 counts as 1.
	Weight uint32
	// WeightGiven reports whether a person chose the weight. If that holds for no agent of a stage and all agents have
	// a capacity, the load is split by capacity.
	WeightGiven bool
	// Capacity is the load that calibration found this machine to measure exactly. Nil: the machine was not calibrated.
	Capacity *spatev1.Capacity
	// MaxStreams is the maximum number of requests in flight. A closed loop that needs more is rejected. Arrivals of an
	// open loop wait for a place, which shows as send delay. A session holds its place from its first turn to its last,
	// pauses included. 0: as many as the limit of open files allows.
	MaxStreams uint32
	// MaxRate is the maximum number of requests per second. An open loop that gives the agent a higher average rate is
	// rejected; random peaks do not count. A closed loop or a replay ends when the agent starts more requests in a
	// whole second. 0: no limit.
	MaxRate float64
	// AgentsInProcess is the number of agents among which the process's limit of open files is split. Each of them
	// takes an equal part. 0 counts as 1.
	AgentsInProcess int
	// SourceAddresses are addresses of this machine from which connections to targets are made, in turn. Each address
	// has its own range of ports for each endpoint. Empty: the system picks one.
	SourceAddresses []string
	// PacketTimes gives frames the times of the packets that carried them, however late the agent reads them. Where the
	// system does not allow it (see socket.CheckPacketTimes), frames have the kernel's timestamps.
	PacketTimes bool
	// RoundTrips are the times to connect to addresses, in milliseconds, which the coordinator shows. May be nil.
	RoundTrips map[string]float64
	// Coordinator returns the coordinator's address, a gRPC target such as "passthrough:///10.0.0.1:7070". It is called
	// before each attempt to connect, so that the agent can follow a coordinator that moves. It may block until it
	// knows an address or ctx ends.
	Coordinator func(ctx context.Context) (string, error)
	// DialOptions are for all connections to the coordinator. They must include transport credentials.
	DialOptions []grpc.DialOption
	// BulkOptions are added to DialOptions for the second connection, which carries measurements and datasets so that
	// heartbeats never wait for them. Credentials that yield belong here, see package yielding.
	BulkOptions []grpc.DialOption
	// AllowedTargets are the hosts, networks and ports to which the agent may send anything, in the syntax of
	// allow.Parse. Empty: any host.
	AllowedTargets []string
	// DatasetDir holds datasets, each under its hash. The agent fetches missing datasets from the coordinator. Several
	// agents may share the directory. Empty: the agent rejects workloads that need a dataset.
	DatasetDir string
	// KeepDatasets limits DatasetDir. Datasets beyond the limits are deleted, the least recently used first, when the
	// agent starts and after each fetch. Datasets used within the last hour stay. A dataset larger than the size limit
	// is not fetched. Zero: nothing is deleted.
	KeepDatasets files.Limits
	// LeaveOn is the cause of the context's end that makes Run leave: the agent hands over what it has before it ends.
	// For any other cause Run cancels its load. LeaveTimeout is how long that may take. 0: Run never leaves.
	LeaveOn      error
	LeaveTimeout time.Duration
	// NewWatch returns a watch for one worker, which plays one request at a time. It is called for each new worker.
	// Nil: requests are not watched, which costs nothing.
	NewWatch func() executor.Watch
	// Logger receives what a person should know.
	Logger *slog.Logger
}

// limits returns what the agent may do, or everything that is wrong with the configuration, as one joined error.
func (c *Config) limits() (ready.Limits, error) {
	sources, wrongSources := ready.SourceAddresses(c.SourceAddresses)
	allowed, wrongTargets := allow.Parse(c.AllowedTargets)
	wrong := errors.Join(
		reason.If(c.Name == "", "name: is empty; give each agent its own name"),
		reason.If(c.Coordinator == nil, "coordinator: is not set; set a function that returns its address"),
		reason.If(!(c.MaxRate >= 0) || math.IsInf(c.MaxRate, 1),
			"max rate: %v is not a number of requests per second: want 0, which means no limit, or more", c.MaxRate),
		reason.If(c.Logger == nil, "logger: is missing"), wrongSources,
		reason.If(wrongTargets != nil, "allowed targets: %w", wrongTargets))
	return ready.Limits{
		MaxStreams:      c.MaxStreams,
		MaxRate:         c.MaxRate,
		AgentsInProcess: c.AgentsInProcess,
		Targets:         allowed,
		Resolver:        net.DefaultResolver,
		Sources:         sources,
		PacketTimes:     c.PacketTimes,
	}, wrong
}
