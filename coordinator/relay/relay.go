// Package relay stands between a coordinator and the agents of a region, which are far from it. To its agents a relay
// is a coordinator; it carries what both say to each other over two connections, one for control and one for
// measurements.
//
// A relay adds up what its agents measured in a window, and sends each agent's snapshot without its values: see package
// bundle and docs/adr/0014-bundles.md.
//
// It decides nothing and keeps nothing but datasets. It answers no heartbeat itself, so that leases mean what they
// mean without it, and acks no snapshot itself, so that agents keep each until it is in the ledger. If the relay or one
// of its connections to the coordinator ends, the streams of all its agents end: they come back, here or at another
// address, and send again what was not acked. Snapshots that the ledger has are known by their keys there.
//
// The relay estimates the coordinator's clock. It answers clock probes with this estimate and its uncertainty, and adds
// both to the coordinator's answers to heartbeats.
package relay

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

	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/coordinator/admission"
	"github.com/spate-load/spate/coordinator/membership"
	"github.com/spate-load/spate/coordinator/streams"
	"github.com/spate-load/spate/coordinator/transfer"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/fetch"
	"github.com/spate-load/spate/workload/store"
)

// Relay serves agents. Its methods may be called concurrently.
//
//	New -> Serve or Run (blocks) -> Close
type Relay struct {
	cfg       Config
	log       *slog.Logger
	server    *grpc.Server
	admission *admission.Admission
	datasets  *fetch.Datasets
	stored    *transfer.Datasets
	fetching  singleflight.Group
	closing   chan struct{} // closed by Close: handlers return
	ctx       context.Context
	cancel    context.CancelFunc // ends the link to the coordinator
	linked    sync.WaitGroup
	once      sync.Once

	link             atomic.Pointer[link] // nil: there is no coordinator, or its clock is not known yet
	origins          origins
	agents           atomic.Int64
	links, snapshots atomic.Uint64

	mu      sync.Mutex
	cluster *membership.Cluster
}

// maxMessage is less than a coordinator takes, because an agent's message may be the last of a batch. It is more than a
// valid snapshot has: others are for the coordinator to refuse.
const maxMessage = 2*merge.MaxSnapshotBytes - 2*pushBytes

// New checks the configuration and creates the directory for datasets. It starts nothing.
func New(cfg Config) (*Relay, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	kept, err := store.Open(cfg.DatasetDir)
	if err != nil {
		return nil, err
	}
	r := &Relay{
		cfg: cfg, log: cfg.Logger, closing: make(chan struct{}),
		admission: admission.New(admission.Limits{}, cfg.Logger),
		datasets:  &fetch.Datasets{Dir: cfg.DatasetDir, Limits: cfg.KeepDatasets, Log: cfg.Logger},
		stored:    &transfer.Datasets{Store: kept, Log: cfg.Logger},
	}
	admitting, err := r.admission.Options(cfg.TLS, certs.Relay)
	if err != nil {
		return nil, err
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.server = grpc.NewServer(append(append(admitting, streams.ServerOptions()...),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.UnknownServiceHandler(r.unknown),
	)...)
	spatev1.RegisterControlServiceServer(r.server, controlService{r: r})
	spatev1.RegisterMetricsServiceServer(r.server, metricsService{r: r})
	return r, nil
}

// originOf returns what tells bundles where a snapshot is from. Nil: there are no bundles.
func (r *Relay) originOf() func(*spatev1.SnapshotKey) (origin, bool) {
	if r.cfg.PassOn {
		return nil
	}
	return r.origins.of
}

// unknown refuses what only a coordinator can do, and names the coordinator's address if there is a link.
func (r *Relay) unknown(any, grpc.ServerStream) error {
	ask := "give --coordinator the address of the coordinator behind it"
	if l := r.link.Load(); l != nil {
		ask += ", which it reaches at " + strings.TrimPrefix(l.address, "passthrough:///")
	}
	return status.Errorf(codes.FailedPrecondition, "%s is a relay and serves agents only: %s", r.cfg.Name, ask)
}

// Run listens on an address and serves until ctx ends. It then closes the relay.
func (r *Relay) Run(ctx context.Context, listen string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("relay: listen on %q: %w", listen, err)
	}
	ended := make(chan error, 1)
	context.AfterFunc(ctx, func() { ended <- r.Close() })
	err = r.Serve(l)
	if ctx.Err() != nil {
		return errors.Join(err, <-ended)
	}
	return errors.Join(err, r.Close())
}

// Serve connects to the coordinator and serves agents on a listener until Close. It closes the listener.
func (r *Relay) Serve(l net.Listener) error {
	if err := r.gossip(l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	r.datasets.Open()
	r.linked.Go(func() { r.stayLinked(r.ctx) })
	r.log.Info("relay serves", "address", l.Addr().String(), "most_agents", r.admission.MostAgents())
	if err := r.server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("relay: serve on %s: %w", l.Addr(), err)
	}
	return nil
}

// gossip joins the cluster of the relay's agents, so that they find it.
func (r *Relay) gossip(a net.Addr) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cfg.Gossip == nil || r.ctx.Err() != nil {
		return nil
	}
	cfg := *r.cfg.Gossip
	cfg.Meta.Role = membership.RoleCoordinator
	if tcp, ok := a.(*net.TCPAddr); ok {
		cfg.Meta.GRPCPort = uint16(tcp.Port)
	}
	if r.cluster, err = membership.Join(cfg); err != nil {
		return err
	}
	r.log.Info("gossip is ready", "address", r.cluster.Address())
	return nil
}

// closeTimeout bounds how long Close waits for handlers, which have all been told to return.
const closeTimeout = 2 * time.Second

// Close ends the sessions of all agents and the connections to the coordinator. It blocks until everything has stopped,
// and may be called twice.
func (r *Relay) Close() (err error) {
	r.once.Do(func() {
		close(r.closing)
		force := time.AfterFunc(closeTimeout, r.server.Stop)
		r.server.GracefulStop()
		force.Stop()
		r.cancel()
		r.linked.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.cluster != nil {
			err = r.cluster.Close()
		}
	})
	return err
}

// Stats is the state of a relay, for monitoring. Counts are since New.
type Stats struct {
	// Connected reports whether the relay has a coordinator and knows its clock.
	Connected bool
	// Agents is the number of agents with a session through this relay.
	Agents int
	// Links counts connections to a coordinator, Snapshots the snapshots that it acked or refused.
	Links, Snapshots uint64
	// ClockUncertainty is how wrong the relay's estimate of the coordinator's clock may be. Nil: there is no estimate.
	ClockUncertainty *time.Duration
}

// Stats returns the relay's current state.
func (r *Relay) Stats() Stats {
	l := r.link.Load()
	s := Stats{Connected: l != nil, Agents: int(r.agents.Load()), Links: r.links.Load(), Snapshots: r.snapshots.Load()}
	if l != nil {
		if o, known := l.clock.Now(); known {
			s.ClockUncertainty = &o.Uncertainty
		}
	}
	return s
}
