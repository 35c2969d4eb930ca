// Package coordinator runs plans on agents: it finds agents, splits each stage over them, starts them at one instant,
// takes in what they measure and keeps it in a ledger.
//
// It is a thin shell: what happens in a run is decided by package lifecycle, what numbers mean by package aggregate. It
// must not send load, see a single request, or write a secret anywhere. The commands make a Coordinator, in its own
// process or embedded; agents and clients reach it through its gRPC services only.
package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/membership"
	"github.com/spate-load/spate/internal/lockfile"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/store"
)

// Coordinator serves agents and clients. Its methods may be called concurrently.
//
//	New -> Serve or Run (blocks) -> Close
type Coordinator struct {
	cfg     Config
	log     *slog.Logger
	server  *grpc.Server
	intake  intake
	shown   shown
	store   *store.Store
	closing chan struct{} // closed by Close: handlers return
	once    sync.Once
	workers sync.WaitGroup // of runs in progress, and of scribes

	boot   string // of this machine, see bootID
	diskOf func(*ledger.Ledger) disk
	limits *limits

	strangers, trespass atomic.Uint64 // connections and calls refused
	restarts, renewals  atomic.Uint64
	faults              atomic.Uint64 // panics that were recovered from

	// guards all below, and the machine of the run in progress; nobody waits for the disk who holds it
	mu       sync.Mutex
	sessions map[string]*session
	owners   map[string]owner // of agents' names, by whoever connected last
	active   *run             // nil: none
	queue    []*run           // those that wait, in order
	expected int              // runs whose ledgers are being made
	runs     map[string]*run
	recent   []string // ids of the runs in memory, oldest first
	listed   map[string]listed
	cluster  *membership.Cluster
	lock     *lockfile.Lock // on the data directory; nil: it is not served yet
	closed   bool
}

// New checks the configuration and makes the directory of datasets. Nothing is started.
func New(cfg Config) (*Coordinator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Coordinator{
		cfg: cfg.withDefaults(), closing: make(chan struct{}),
		sessions: map[string]*session{}, owners: map[string]owner{}, runs: map[string]*run{},
		listed: map[string]listed{}, boot: bootID(),
		diskOf: func(l *ledger.Ledger) disk { return l },
	}
	c.log = c.cfg.Logger
	c.limits = newLimits(c.cfg.Limits, c.log)
	var err error
	if c.store, err = store.Open(c.cfg.DatasetDir); err != nil {
		return nil, err
	}
	secured, err := c.security()
	if err != nil {
		return nil, err
	}
	c.server = grpc.NewServer(append(append(append(c.limits.options(secured.creds), c.recovering()...),
		secured.options...),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.InitialWindowSize(flowWindow), grpc.InitialConnWindowSize(flowWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second,
			PermitWithoutStream: true}),
	)...)
	spatev1.RegisterControlServiceServer(c.server, controlService{c: c})
	spatev1.RegisterMetricsServiceServer(c.server, metricsService{c: c})
	spatev1.RegisterRunServiceServer(c.server, runService{c: c})
	return c, nil
}

// maxMessage is twice the largest snapshot: one that is too large is refused with a reason, which its agent can act on,
// rather than by the end of the stream, after which the agent would send it again.
const maxMessage = 2 * aggregate.MaxSnapshotBytes

// flowWindow is how much a stream, or a connection, may have on its way. Being given, it is not estimated, which would
// take a ping and its answer for each snapshot; 4 MiB in 150 ms are 28 MB/s.
const flowWindow = 4 << 20

// Run listens on the configured address and serves until ctx ends, then closes the coordinator, or leaves if that is
// what ended ctx.
func (c *Coordinator) Run(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.cfg.Listen)
	if err != nil {
		return fmt.Errorf("coordinator: listen on %q: %w", c.cfg.Listen, err)
	}
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx,
		func() { ended <- c.end(c.cfg.LeaveOn != nil && errors.Is(context.Cause(ctx), c.cfg.LeaveOn)) })
	err = c.Serve(l)
	if stop() {
		return errors.Join(err, c.Close())
	}
	return errors.Join(err, <-ended)
}

// Serve serves on a listener until Close, and closes the listener. Before, unless the coordinator is local, it takes up
// the runs in the data directory that have no end; it also joins the gossip, if there is one, with the listener's port.
func (c *Coordinator) Serve(l net.Listener) error {
	if err := c.cfg.checkAddr(l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := c.lockData(); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := c.takeUpRuns(); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := c.gossip(l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	c.log.Info("coordinator serves", "address", l.Addr().String())
	if err := c.server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("coordinator: serve on %s: %w", l.Addr(), err)
	}
	return nil
}

// lockData makes the data directory this coordinator's own until it is closed: two would take up the same runs. A local
// one takes up none, and several may have their runs in one directory.
func (c *Coordinator) lockData() error {
	if c.cfg.Local {
		return nil
	}
	lock, err := lockfile.Acquire(c.cfg.DataDir)
	if err != nil {
		return fmt.Errorf("coordinator: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return lock.Release()
	}
	c.lock = lock
	return nil
}

// gossip makes the coordinator known.
func (c *Coordinator) gossip(a net.Addr) error {
	if c.cfg.Gossip == nil {
		return nil
	}
	cfg := *c.cfg.Gossip
	cfg.Meta.Role = membership.RoleCoordinator
	if tcp, ok := a.(*net.TCPAddr); ok {
		cfg.Meta.GRPCPort = uint16(tcp.Port)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.cluster != nil {
		return nil
	}
	cluster, err := membership.Join(cfg)
	if err != nil {
		return err
	}
	c.cluster = cluster
	c.log.Info("gossip is ready", "address", cluster.Address())
	return nil
}

// GossipAddress returns the address agents can use as a seed. Empty: no gossip, or Serve has not begun.
func (c *Coordinator) GossipAddress() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cluster == nil {
		return ""
	}
	return c.cluster.Address()
}

// closeTimeout bounds how long Close waits for handlers: they have all been told.
const closeTimeout = 2 * time.Second

// Close aborts the run in progress, keeping what was measured, tells agents to stop, and ends all services. Runs that
// wait do so until a coordinator is started in the same directory. It blocks until all is down, which takes up to
// sinkDeadline if a run's sink has something left, and may be called twice.
func (c *Coordinator) Close() error { return c.end(false) }

// Leave is Close, but leaves the run in progress to the coordinator that is started next on the same data directory.
// Agents go on for their lease.
func (c *Coordinator) Leave() error { return c.end(true) }

// end is Close and Leave.
func (c *Coordinator) end(leave bool) error {
	var err error
	c.once.Do(func() {
		c.mu.Lock()
		c.closed = true
		cluster, last := c.cluster, c.active
		if leave {
			c.setAside()
		} else {
			c.abort("the coordinator was closed")
		}
		c.mu.Unlock()
		if last != nil {
			<-last.ended // agents hear of it before their streams end
		}
		close(c.closing)
		c.workers.Wait()
		force := time.AfterFunc(closeTimeout, c.server.Stop)
		c.server.GracefulStop()
		force.Stop()
		err = errors.Join(c.closeWaiting(), c.unlockData())
		if cluster != nil {
			err = errors.Join(err, cluster.Close())
		}
	})
	return err
}

// setAside leaves the run in progress as it is: its ledger has all that is needed to go on with it. c.mu is held.
func (c *Coordinator) setAside() {
	r := c.active
	if r == nil {
		return
	}
	c.log.Info("run is left to the coordinator that is started next", "run", r.id)
	c.active = nil
	c.queue = append(c.queue, r) // for its ledger
	c.later(r, r.over)           // what it has decided is written and told
}

// closeWaiting lets go of the ledgers of the runs that wait, and of the one that was set aside.
func (c *Coordinator) closeWaiting() (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.queue {
		err = errors.Join(err, r.ledger.Close())
	}
	c.queue = nil
	return err
}

// unlockData lets others have the data directory.
func (c *Coordinator) unlockData() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lock.Release()
}

// Stats says how the coordinator does, for those who watch it. Counts are since New.
type Stats struct {
	// Snapshots are those written to a ledger.
	Snapshots uint64
	// Duplicates came again and were acked again.
	Duplicates uint64
	// Refused are garbage, foreign or oversize.
	Refused uint64
	// GivenUp came from a process whose part of the stage others have taken over, or which was waited for in vain.
	GivenUp uint64
	// Limited are the connections, streams and messages that were too many.
	Limited uint64
	// Renewals are the heartbeats that were answered: agents' leases that began anew.
	Renewals uint64
	// Restarts are the runs that were gone on with after a new start of the coordinator.
	Restarts uint64
	// Waiting is the number of runs that wait.
	Waiting int
	// ConnectionsRefused had no certificate of the cluster, and CallsRefused not the right role's.
	ConnectionsRefused, CallsRefused uint64
	// Windows were merged and handed on, and WindowDelay is how long after its end the last of them was. Agents close a
	// window 250 ms after its end.
	Windows     uint64
	WindowDelay time.Duration
	// Agents counts those that are connected, by health: "ready", "busy", "silent".
	Agents map[string]int
	// Run is the id of the run in progress, empty without one.
	Run string
}

// Stats returns the counts.
func (c *Coordinator) Stats() Stats {
	s := c.intake.stats()
	s.ConnectionsRefused, s.CallsRefused, s.Agents = c.strangers.Load(), c.trespass.Load(), map[string]int{}
	s.Windows, s.WindowDelay = c.shown.windows.Load(), time.Duration(c.shown.delay.Load())
	s.Limited, s.Renewals, s.Restarts = c.limits.refused.Load(), c.renewals.Load(), c.restarts.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	now := clock.Now()
	agents := map[spatev1.AgentHealth]int{}
	for name, a := range c.sessions {
		agents[c.health(name, now.Sub(a.heard))]++
	}
	for health, n := range agents {
		s.Agents[strings.ToLower(strings.TrimPrefix(health.String(), "AGENT_HEALTH_"))] = n
	}
	s.Waiting = len(c.queue)
	if c.active != nil {
		s.Run = c.active.id
	}
	return s
}
