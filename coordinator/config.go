package coordinator

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/membership"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/reason"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Config configures a coordinator.
type Config struct {
	// Listen is the address of the gRPC services, for Run. Addresses beyond loopback need TLS or InsecurePlaintext.
	Listen string
	// TLS names the coordinator's certificate and the cluster's certificate authority. With it, all connections are
	// encrypted, agents and clients need certificates too, and each may call what its role allows. Without it, anyone
	// who can connect may do anything.
	TLS certs.Files
	// Enrolment lets programs without a certificate join by an invitation. Nil: they need certificates.
	Enrolment *access.Enrolment
	// InsecurePlaintext allows connections without TLS beyond loopback. Anyone who can reach the port can then run
	// plans, read results, and see the API keys that are sent to agents.
	InsecurePlaintext bool
	// DataDir holds a directory for each run, with its ledger: DataDir/RUNID/ledger.db.
	DataDir string
	// DatasetDir holds the plans' datasets, for agents to fetch. Default: "datasets" in DataDir.
	DatasetDir string
	// Gossip lets agents find this coordinator, and lets the coordinator list agents that have not connected. The
	// coordinator sets the role and port in Meta. Nil: agents must be given the address.
	Gossip *membership.Config
	// Local says that the coordinator is embedded in the command that submits its one run. It resumes no runs in
	// DataDir by itself, and no other coordinator resumes its run: only Resume does.
	Local bool
	// KeepRuns limits the ended runs in DataDir. Runs beyond the limits are deleted, oldest first, at the start and
	// whenever a run ends. Zero: no limit.
	KeepRuns files.Limits
	// KeepDatasets limits the datasets in DatasetDir. Datasets of waiting and current runs are never deleted. Zero: no
	// limit.
	KeepDatasets files.Limits
	// MaxDataset is the largest dataset that a client may upload, in bytes. 0: no limit.
	MaxDataset uint64
	// RunDir is the directory of a local coordinator's run instead of DataDir/RUNID.
	RunDir string
	// OpenSink opens the sink for a run's merged results while the run is in progress. The coordinator closes the sink
	// at the run's end. Nil: no sink.
	OpenSink func(runDir string) (sink.Sink, error)
	// OpenHistory opens the history of the runs in DataDir. The coordinator records each run that ends. Nil:
	// there is none.
	OpenHistory func(dataDir string, log *slog.Logger) (History, error)
	// LeaveOn makes Run leave rather than close the coordinator if this is the cause of its context's end. Nil: Run
	// always closes the coordinator.
	LeaveOn error
	// Access decides what clients may change. Nil: clients may do everything.
	Access *access.File
	// Limits bounds what peers can ask for.
	Limits access.Limits
	// MaxWaiting is how many runs may wait for others to end. Default 64.
	MaxWaiting int
	// MaxRuns is how many runs may be in progress at once, each with agents of its own. Default 16.
	MaxRuns int
	// HeartbeatInterval is how often agents report. Default 1 s.
	HeartbeatInterval time.Duration
	// Lease is how long an agent continues without its coordinator before it drains. Default 30 s.
	Lease time.Duration
	// Run sets the times of a run. Values that a submitted run brings along replace those here.
	Run lifecycle.Config
	// Name of this coordinator, for agents' logs. Default: the host's name.
	Name string
	// Version of the program, for the run's record.
	Version string
	// Logger receives log messages. Default slog.Default().
	Logger *slog.Logger
}

// History keeps the numbers of ended runs for longer than the runs. Its methods may be called concurrently, and may
// block on the disk.
type History interface {
	// Has reports whether a run has been recorded, or is known to have nothing to record.
	Has(run string) bool
	// Take records a run that has ended. dir returns the directory of a run.
	Take(run string, dir func(run string) string) error
	// Skip notes that a run has nothing to record.
	Skip(run string) error
	// Remove forgets a run.
	Remove(run string) error
	// Read returns a metric over the newest runs of a plan, at most so many. removed reports whether a run is not there
	// any more. It fails if there is no such metric.
	Read(plan, metric string, most int, removed func(run string) bool) (*spatev1.ReadHistoryResponse, error)
}

// Validate returns all errors in the configuration.
func (c Config) Validate() error {
	errs := []error{
		reason.If(c.DataDir == "", "coordinator: a data directory is needed: runs are kept there"),
		reason.If(c.HeartbeatInterval < 0 || c.Lease < 0,
			"coordinator: heartbeat interval %v and lease %v must not be negative", c.HeartbeatInterval, c.Lease),
		reason.If(c.MaxWaiting < 0 || c.MaxRuns < 0, "coordinator: %d runs cannot wait, and %d cannot be in progress",
			c.MaxWaiting, c.MaxRuns),
		reason.If(c.RunDir != "" && !c.Local,
			"coordinator: a run directory is for a local coordinator only: others keep runs in the data directory"),
	}
	if _, _, err := net.SplitHostPort(c.Listen); c.Listen != "" && err != nil {
		errs = append(errs, fmt.Errorf("coordinator: listen address %q: want HOST:PORT: %w", c.Listen, err))
	}
	if c.Gossip != nil {
		errs = append(errs, c.Gossip.Validate())
	}
	return errors.Join(errs...)
}

// checkAddr returns an error if the coordinator would offer plaintext to a network by accident.
func (c Config) checkAddr(a net.Addr) error {
	if tcp, ok := a.(*net.TCPAddr); !ok || tcp.IP.IsLoopback() || c.TLS.Given() || c.InsecurePlaintext {
		return nil
	}
	return fmt.Errorf("coordinator: %s can be reached from other machines, unencrypted: give certificates "+
		"(`spate certs --help`), listen on 127.0.0.1, or give --insecure-plaintext if you trust the network", a)
}

// localConnections is how many connections a local coordinator serves. They are in memory and need no files.
const localConnections = 1 << 16

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	host, _ := os.Hostname()
	c.Name, c.Logger = cmp.Or(c.Name, host), cmp.Or(c.Logger, slog.Default())
	c.DatasetDir = cmp.Or(c.DatasetDir, filepath.Join(c.DataDir, "datasets"))
	c.MaxWaiting, c.MaxRuns = cmp.Or(c.MaxWaiting, 64), cmp.Or(c.MaxRuns, 16)
	c.HeartbeatInterval, c.Lease = cmp.Or(c.HeartbeatInterval, time.Second), cmp.Or(c.Lease, 30*time.Second)
	c.Run.Lease = c.Lease
	c.Run.Silence = cmp.Or(c.Run.Silence, c.HeartbeatInterval*7/2) // three heartbeats and a half
	if c.Local {
		c.Limits.Connections = cmp.Or(c.Limits.Connections, localConnections)
	}
	return c
}
