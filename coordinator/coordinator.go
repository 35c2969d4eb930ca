// Package coordinator runs plans on agents: it finds agents, splits each stage over them, starts them at one instant,
// and keeps what they measure in a ledger.
//
// It is a thin shell: package lifecycle decides what happens in a run, packages merge and results what numbers mean. It
// must not send load, see single requests, or write a secret anywhere. The commands make a Coordinator, in its own
// process or embedded in a local run. Agents and clients reach it only through its gRPC services.
//
// # Parts
//
// Each part uses only those below it. What goes up is a call of keeper, from a run that has ended:
//
//	services      controlService, metricsService, runService: translate, ask who may, hand over
//	Coordinator   sessions come and go (agents.go), runs of earlier processes (restart.go) and ended ones (stored.go)
//	queue         which runs wait and are in progress (queue.go); which begin, with which agents (allot.go)
//	run           machine (run.go), its effects (effects.go), snapshots (intake.go), time and results (worker.go)
//	ground        configuration, lock, fleet, storage, what is published; panics
//
// A snapshot comes to metricsService, which finds its run. The run checks it, adds it to the ledger and to the merge,
// tells the machine, and acknowledges it.
//
// # Goroutines
//
// Each run has two: its worker tells the machine the time, computes results and publishes them; its write queue writes
// what the machine decided, and only then tells agents and followers. Both end with the run, and Close waits for them.
// A stream has two: one reads and handles its messages, its handler waits for the end and, on a control stream, sends
// what is queued. A panic in any of them ends its run or its call, see ground.go.
//
// The machine runs on the goroutine whose event it handles, under ground.mu, and not on a goroutine of its own.
// Not on the write queue's, because heartbeats and lost agents must be handled while the disk is slow. Not on a third
// one, because most callers need an answer at once: a heartbeat's answer has whether all load ended, a list
// whether an agent is busy, a stop when it is durable. And what the machine decides must go to the sessions of that
// moment. With a channel in place of the lock each of these would be a question and an answer, and the sessions would
// need a lock all the same. The machine does no I/O, so the lock is held only while it computes.
//
// # Locks
//
// A goroutine that holds a lock takes only locks below it (make lock-order tests this):
//
//	Coordinator.recording
//	ground.mu             the fleet, the queue, machines of the runs in progress
//	live.Latest           results for scrapes; not together with ground.mu
//	  live.Stages         look-ups of stages
//	    merge.Stage       one merge
//	  live.EventLog, storage.Queue, storage.Watched, sinks, membership.Cluster, fleet.Cordons, each alone
//
// While the coordinator serves, nothing waits for the disk, the network or another goroutine with ground.mu held:
// agents whose heartbeats are not answered lose their leases. So a sink must not block in the methods that take points,
// nor call the coordinator.
package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/coordinator/fleet"
	"github.com/spate-load/spate/coordinator/membership"
	"github.com/spate-load/spate/coordinator/storage"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/store"
)

// Coordinator serves agents and clients. Its methods may be called concurrently.
//
//	New -> Serve or Run (blocks) -> Close
type Coordinator struct {
	ground
	queue     queue
	server    *grpc.Server
	datasets  *store.Server
	admission *access.Admission
	audit     access.AuditLog
	once      sync.Once
	recording sync.Mutex       // held while runs are recorded in the history; taken before all others
	rebuilds  func(run string) // called before a run is rebuilt

	restarts, renewals atomic.Uint64

	// guarded by mu
	cluster *membership.Cluster
	history History     // nil: there is none, or the coordinator does not serve yet
	lock    *files.Lock // on the data directory; nil: local, or not serving yet
}

// New checks the configuration and creates the dataset directory. It starts nothing.
func New(cfg Config) (*Coordinator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // empty: it is not known
	c := &Coordinator{rebuilds: func(string) {}, ground: ground{
		cfg: cfg, log: cfg.Logger, closing: make(chan struct{}), storage: storage.New(cfg.DataDir, cfg.RunDir),
		boot: strings.TrimSpace(string(boot)), diskOf: func(l *ledger.Ledger) storage.Disk { return l },
		fleet: fleet.New(cfg.HeartbeatInterval, cfg.Run.Silence),
	}}
	c.queue = queue{ground: &c.ground, keeper: c, runs: map[string]*run{}}
	c.admission = access.NewAdmission(cfg.Limits, c.log)
	datasets, err := store.Open(cfg.DatasetDir)
	if err != nil {
		return nil, err
	}
	c.datasets = &store.Server{Store: datasets, MaxBytes: cfg.MaxDataset, Log: c.log,
		Received: func() { c.tidy(time.Now()) }}
	c.server, err = c.newServer(cfg.TLS, cfg.Enrolment)
	return c, err
}

// newServer makes a server. Enrolment may be nil.
func (c *Coordinator) newServer(tls certs.Files, e *access.Enrolment) (*grpc.Server, error) {
	admitting, err := c.admission.Options(tls, e != nil)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(append(append(c.recovering(), admitting...),
		append(serverOptions(), grpc.MaxRecvMsgSize(maxMessage))...)...)
	spatev1.RegisterControlServiceServer(server, controlService{c: c})
	spatev1.RegisterMetricsServiceServer(server, metricsService{c: c})
	spatev1.RegisterRunServiceServer(server, runService{c: c})
	if e != nil {
		spatev1.RegisterEnrolmentServiceServer(server, e)
	}
	return server, nil
}

// released lets other runs take the agents of one that is over. The lock is held.
func (c *Coordinator) released(r *run) {
	c.queue.remove(r)
	c.queue.allot(clock.Now())
}

// tick gives agents that runs no longer need to others.
func (c *Coordinator) tick() { c.queue.allotRegularly() }

// recorded records the runs that have ended in the history, and removes what is beyond the limits.
func (c *Coordinator) recorded() {
	c.recordEnded()
	_ = c.recovered("", func() error { // which logs it
		c.tidy(time.Now())
		return nil
	})
}

// maxMessage is twice the largest snapshot. An oversize snapshot is then refused with a reason, which its agent can act
// on. If it ended the stream instead, the agent would send it again.
const maxMessage = 2 * merge.MaxSnapshotBytes

// Run listens on the configured address and serves until ctx ends. It then closes the coordinator, or leaves if ctx
// ended because of Config.LeaveOn.
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

// Serve serves on a listener until Close, and closes the listener. Before serving, a coordinator that is not local
// finds the runs in the data directory that have not ended, which it resumes while it serves. Serve also joins gossip,
// if configured, and announces the listener's port.
func (c *Coordinator) Serve(l net.Listener) error {
	if err := c.cfg.checkAddr(l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := c.lockData(); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := c.resumeRuns(); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := c.gossip(l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	c.log.Info("coordinator serves", "address", l.Addr().String(), "most_agents", c.admission.MostAgents())
	return c.ServeAlso(l)
}

// ServeAlso serves on another listener, which only this machine can reach, until Close, and closes it.
func (c *Coordinator) ServeAlso(l net.Listener) error {
	if err := c.server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("coordinator: serve on %s: %w", l.Addr(), err)
	}
	return nil
}

// ServeInvited also serves on a listener that other machines can reach, until Close, and closes it: those join by an
// invitation of an authority that is for them alone.
func (c *Coordinator) ServeInvited(l net.Listener, a *certs.Authority) error {
	server, err := c.newServer(a.Own(), &access.Enrolment{Authority: a, Validity: certs.Validity, Log: c.log})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	c.workers.Go(func() { _ = server.Serve(l) }) // until it is stopped
	c.workers.Go(func() {
		<-c.closing
		time.AfterFunc(closeTimeout, server.Stop) // of a server that has stopped it does nothing
		server.GracefulStop()
	})
	return nil
}

// lockData locks the data directory until the coordinator is closed, because two coordinators would resume the same
// runs. A local coordinator does not lock: it resumes no runs, and several may share a directory.
func (c *Coordinator) lockData() error {
	if c.cfg.Local {
		return nil
	}
	lock, err := files.LockDir(c.cfg.DataDir)
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

// gossip joins the cluster, so that agents find the coordinator.
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

// closeTimeout bounds how long Close waits for handlers, which have all been told to return.
const closeTimeout = 2 * time.Second

// Close aborts the runs in progress, keeps what was measured, tells agents to stop, and ends all services. Runs that
// wait or are still being rebuilt wait until a coordinator is started in the same directory. Close blocks until
// everything has stopped, which takes up to sinkDeadline if a run's sink still has points to write. It may be called
// twice.
func (c *Coordinator) Close() error { return c.end(false) }

// end is Close, but if leave is true it leaves the runs in progress to the next coordinator on the same data directory.
// Agents continue for the length of their lease.
func (c *Coordinator) end(leave bool) error {
	var err error
	c.once.Do(func() {
		c.mu.Lock()
		c.closed = true
		cluster, last := c.cluster, slices.Clone(c.queue.active)
		for _, r := range last {
			switch {
			case !r.isRebuilt(): // that ends, and the run is left as it is
				c.queue.remove(r)
			case leave: // its ledger has all that is needed to resume it
				c.log.Info("run is left in progress for the next coordinator", "run", r.id)
				c.queue.remove(r)
				c.queue.waiting = append(c.queue.waiting, r) // so that its ledger is closed
				r.later(r.over)                              // after what it decided is written and told
			default:
				r.abort("the coordinator was closed")
			}
		}
		c.mu.Unlock()
		for _, r := range last {
			<-r.ended // agents are told before their streams end
		}
		close(c.closing)
		c.workers.Wait()
		force := time.AfterFunc(closeTimeout, c.server.Stop)
		c.server.GracefulStop()
		force.Stop()
		c.mu.Lock()
		waiting, lock := c.queue.waiting, c.lock
		c.queue.waiting = nil
		c.mu.Unlock()
		for _, r := range waiting {
			err = errors.Join(err, r.ledger.Close())
		}
		err = errors.Join(err, lock.Release())
		if cluster != nil {
			err = errors.Join(err, cluster.Close())
		}
	})
	return err
}

// Stats is the state of the coordinator, for monitoring. Counts are since New.
type Stats struct {
	// Snapshots counts snapshots written to a ledger.
	Snapshots uint64
	// Duplicates counts snapshots that came again and were acknowledged again.
	Duplicates uint64
	// Refused counts snapshots that were invalid, oversize, or did not belong to a stage in progress.
	Refused uint64
	// Dropped counts snapshots from lost agents whose part had been dropped or taken over.
	Dropped uint64
	// Limited counts connections, streams and messages beyond the limits.
	Limited uint64
	// Renewals counts answered heartbeats. Each renews an agent's lease.
	Renewals uint64
	// Restarts counts runs that were resumed after a restart of the coordinator.
	Restarts uint64
	// Waiting is the number of waiting runs.
	Waiting int
	// ConnectionsRefused counts connections without a certificate of the cluster, CallsRefused calls that the
	// certificate does not allow.
	ConnectionsRefused, CallsRefused uint64
	// Windows counts windows that were merged and published. WindowDelay is how long after its end the last window was
	// published. Agents close a window 250 ms after its end.
	Windows     uint64
	WindowDelay time.Duration
	// Agents counts the connected agents by health: "ready", "busy", "silent".
	Agents map[string]int
	// Cordoned is the number of agents, connected or not, that take no new runs.
	Cordoned int
	// Runs has the ids of the runs in progress, in the order in which they began.
	Runs []string
}

// LatestRows returns the newest results of the stages in progress, and those of stages that ended a short time ago, in
// the form of a time series database: see live.Latest. The caller must not change them.
func (c *Coordinator) LatestRows() []sink.Row { return c.latest.Rows() }

// Stats returns the coordinator's current state.
func (c *Coordinator) Stats() Stats {
	s := Stats{Snapshots: c.intake.written.Load(), Duplicates: c.intake.duplicates.Load(),
		Refused: c.intake.refused.Load(), Dropped: c.intake.dropped.Load()}
	s.ConnectionsRefused, s.CallsRefused = c.admission.ConnectionsRefused.Load(), c.admission.CallsRefused.Load()
	s.Windows, s.WindowDelay = c.lag.Windows.Load(), time.Duration(c.lag.Delay.Load())
	s.Limited, s.Renewals, s.Restarts = c.admission.Limited.Load(), c.renewals.Load(), c.restarts.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Agents = c.fleet.Health(c.work)
	s.Waiting, s.Cordoned = len(c.queue.waiting), len(c.fleet.Cordons.All())
	s.Runs = lists.Each(c.queue.active, func(r *run) string { return r.id })
	return s
}
