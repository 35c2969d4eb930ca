// Package agent generates one agent's share of a stage and reports what it measured to the coordinator.
//
// A session holds the connection to the coordinator: assignments come in, snapshots go out. The executor turns an
// assignment into requests, by the schedule of agent/arrival, the content of workload and the client of agent/stream.
// The recorder counts what became of them, and the outbox keeps each snapshot until the coordinator has it for good. An
// assignment under way does not need the connection: the agent goes on for the lease it was given, and drains when that
// ends.
//
// The package decides nothing about a run: what to do and when is the coordinator's word. It knows no gossip, reads no
// configuration and writes no files but the datasets it is told to fetch. The daemon and the run command call it.
package agent

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/agent/allow"
	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// protocol is the version of the control protocol the agent speaks.
const protocol = 2

// shutdownGrace bounds the time in which an agent that is shut down delivers what it has measured.
const shutdownGrace = 5 * time.Second

// answerBytes bounds what answers take that are longer than asked for, all of an agent's together.
const answerBytes = 64 << 20

// Agent serves a coordinator.
type Agent struct {
	config      Config
	incarnation uint64
	outbox      *outbox
	desk        *desk
	datasets    *datasets

	heartbeats atomic.Uint64            // sent so far
	welcomed   atomic.Uint64            // sessions so far
	clock      atomic.Pointer[clockNow] // of the session that is there; nil: there is none
}

// New returns an agent that does nothing until Run. Its error says what is wrong with the configuration.
func New(c Config) (*Agent, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("agent configuration: %w", err)
	}
	allowed, err := allow.Parse(c.AllowedTargets)
	if err != nil {
		return nil, err
	}
	sources, err := sourceAddresses(c.SourceAddresses)
	if err != nil {
		return nil, fmt.Errorf("agent configuration: %w", err)
	}
	a := &Agent{config: c, incarnation: rand.Uint64(), datasets: &datasets{dir: c.DatasetDir, keep: c.KeepDatasets,
		log: c.Logger}}
	a.outbox = newOutbox(c.Name, a.incarnation, outboxBytes)
	a.desk = &desk{
		kit: kit{
			limits: limits{maxStreams: c.MaxStreams, maxRate: c.MaxRate, fileShares: c.FileShares, targets: allowed,
				resolver: net.DefaultResolver, sources: sources},
			datasets: a.datasets,
			findings: &findings{},
			logger:   c.Logger,
			newWatch: c.NewWatch,
			name:     c.Name,
			capacity: c.Capacity,
			answers:  stream.NewMemory(answerBytes),
		},
		outbox: a.outbox,
		logger: c.Logger,
		beat:   make(chan struct{}, 1),
	}
	return a, nil
}

// Run serves the coordinator, and connects again whenever the connection breaks, until ctx ends. Load under way is then
// cancelled at once, and Run returns when the coordinator has what was measured, or after 5 seconds. It is called once.
func (a *Agent) Run(ctx context.Context) error {
	if err := raiseFileLimit(); err != nil {
		a.config.Logger.Warn("fewer streams than this machine could hold", "error", err)
	}
	a.datasets.open()
	link, unlink := context.WithCancel(context.WithoutCancel(ctx))
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		a.stayConnected(link)
	}()
	<-ctx.Done()
	a.desk.close("the agent was shut down")
	a.desk.work.Wait()
	left := a.deliver()
	unlink()
	<-gone
	if left > 0 {
		return fmt.Errorf("shut down with %d snapshots that the coordinator did not take within %v", left,
			shutdownGrace)
	}
	return nil
}

// deliver waits until the coordinator has every snapshot, for the grace at most, and returns how many are left.
func (a *Agent) deliver() int {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	if a.outbox.flushed(ctx) {
		return 0
	}
	return a.outbox.waiting()
}

// describe introduces the agent.
func (a *Agent) describe() *spatev1.AgentInfo {
	host, _ := os.Hostname() // for people only
	return &spatev1.AgentInfo{
		Name:       a.config.Name,
		Region:     a.config.Region,
		Version:    a.config.Version,
		Host:       host,
		Weight:     cmp.Or(a.config.Weight, 1),
		MaxStreams: a.desk.kit.limits.advertised(countFiles()),
		MaxRate:    a.config.MaxRate,
		Cores:      uint32(runtime.GOMAXPROCS(0)),

		Capacity: a.config.Capacity, WeightGiven: a.config.WeightGiven,
	}
}
