// Package agent generates one agent's load of a stage and reports what it measured to the coordinator.
//
// A session holds the connection to the coordinator: assignments come in, snapshots go out. A ready stage turns an
// assignment into requests: schedule gives the schedule, package workload the content, and agent/stream the
// client. The recorder measures the requests, and the outbox keeps each snapshot until the coordinator has it for good.
// A load under way does not need the connection: the agent continues for the length of its lease, and drains when the
// lease ends.
//
// The package decides nothing about a run: the coordinator says what to do and when. The package knows no gossip, reads
// no configuration files, and writes no files but the datasets that it fetches. The daemon and the run command call it.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/agent/outbox"
	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/supervisor"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/store"
)

// protocol is the version of the control protocol the agent speaks.
const protocol = 2

// shutdownGrace bounds how long an agent that shuts down tries to deliver what it has measured.
const shutdownGrace = 5 * time.Second

// leaveCheck is how often an agent that leaves checks whether it still has a coordinator.
const leaveCheck = 100 * time.Millisecond

// answerBytes bounds the memory for answers that are longer than requested, over all requests of an agent.
const answerBytes = 64 << 20

// Agent serves a coordinator.
type Agent struct {
	config      Config
	incarnation uint64
	outbox      *outbox.Outbox
	supervisor  *supervisor.Supervisor
	datasets    *store.Fetcher
	limits      ready.Limits

	heartbeats atomic.Uint64                    // sent so far
	welcomed   atomic.Uint64                    // sessions so far
	clock      atomic.Pointer[coordinatorClock] // of the current session; nil: there is none

	leaving  atomic.Bool
	released chan struct{} // signals that the coordinator needs the leaving agent no more
}

// New returns an agent that does nothing until Run is called. The error says what is wrong with the configuration.
func New(c Config) (*Agent, error) {
	limits, err := c.limits()
	if err != nil {
		return nil, fmt.Errorf("agent configuration: %w", err)
	}
	c.Logger = c.Logger.With("agent", c.Name)
	a := &Agent{
		config:      c,
		incarnation: rand.Uint64(),
		released:    make(chan struct{}, 1),
		limits:      limits,
		datasets: &store.Fetcher{Dir: c.DatasetDir, Limits: c.KeepDatasets,
			Log: c.Logger},
	}
	a.outbox = outbox.New(c.Name, a.incarnation, outbox.DefaultLimit)
	a.supervisor = supervisor.New(&ready.Resources{
		Limits:   a.limits,
		Datasets: a.datasets,
		Logger:   c.Logger,
		Name:     c.Name,
		Capacity: c.Capacity,
		Answers:  stream.NewMemory(answerBytes),
	}, a.outbox, c.NewWatch)
	return a, nil
}

// Run serves the coordinator until ctx ends, and reconnects whenever the connection breaks. When ctx ends because of
// Config.LeaveOn, Run leaves: it returns when other agents have taken over what this one had, and what it had begun has
// ended, or after Config.LeaveTimeout. Otherwise, and after that time, Run cancels load under way at once. It returns
// when the coordinator has everything that was measured, or after 5 seconds. Run must be called only once.
func (a *Agent) Run(ctx context.Context) error {
	if err := ready.RaiseFileLimit(); err != nil {
		a.config.Logger.Warn("limit of open files not raised: this agent can hold fewer streams", "error", err)
	}
	a.datasets.Open()
	link, unlink := context.WithCancel(context.WithoutCancel(ctx))
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		a.stayConnected(link)
	}()
	<-ctx.Done()
	if a.config.LeaveTimeout > 0 && errors.Is(context.Cause(ctx), a.config.LeaveOn) {
		a.leave()
	}
	a.supervisor.Close("the agent was shut down")
	a.supervisor.Wait()
	delivery, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	a.outbox.AwaitEmpty(delivery)
	left := a.outbox.Waiting()
	unlink()
	<-gone
	if left > 0 {
		return fmt.Errorf("shut down with %d snapshots that the coordinator did not ack within %v", left, shutdownGrace)
	}
	return nil
}

// leave blocks until the coordinator has released the agent, or there is neither a coordinator nor anything to hand
// over, for at most the configured time.
func (a *Agent) leave() {
	a.leaving.Store(true)
	a.supervisor.RequestHeartbeat()
	timeout, check := time.NewTimer(a.config.LeaveTimeout), time.NewTicker(leaveCheck)
	defer timeout.Stop()
	defer check.Stop()
	if a.supervisor.Ref() != nil {
		a.config.Logger.Info("leaving: other agents take over what this one has; a second signal ends it at once",
			"timeout", a.config.LeaveTimeout)
	}
	for a.clock.Load() != nil || a.supervisor.Ref() != nil {
		select {
		case <-check.C:
		case <-a.released:
			return
		case <-timeout.C:
			a.config.Logger.Warn("not released in time: what this agent has of a stage will be missing",
				"timeout", a.config.LeaveTimeout)
			return
		}
	}
}

// describe returns the agent's description of itself for Hello.
func (a *Agent) describe() *spatev1.AgentInfo {
	host, _ := os.Hostname() // for people only
	return &spatev1.AgentInfo{
		Name:       a.config.Name,
		Region:     a.config.Region,
		Labels:     a.config.Labels,
		Version:    a.config.Version,
		Host:       host,
		Weight:     cmp.Or(a.config.Weight, 1),
		MaxStreams: a.limits.Advertised(),
		MaxRate:    a.config.MaxRate,
		Cores:      uint32(runtime.GOMAXPROCS(0)),

		Capacity: a.config.Capacity, WeightGiven: a.config.WeightGiven, RoundTripsMs: a.config.RoundTrips,
	}
}

// Stats is the state of an agent, for monitoring.
type Stats struct {
	// Connected reports whether there is a session with the coordinator.
	Connected bool
	// Sessions counts the sessions that the coordinator accepted since the agent started.
	Sessions uint64
	// InFlight is the number of requests in flight. Assigned reports whether there is an assignment.
	InFlight uint32
	Assigned bool
	// Unacked is the number of snapshots that the coordinator has not acked yet, and UnackedBytes is their size.
	Unacked, UnackedBytes int
	// Merges counts how often two snapshots were merged because too many were waiting. DroppedRows counts the request
	// rows that were dropped for the same reason.
	Merges, DroppedRows uint64
	// ClockOffset must be added to this machine's clock to get the coordinator's. ClockUncertainty is the largest error
	// of ClockOffset. ClockKnown reports whether there is an estimate.
	ClockOffset, ClockUncertainty time.Duration
	ClockKnown                    bool
}

// Stats returns the agent's current state. It may be called at any time, and does not block for long.
func (a *Agent) Stats() Stats {
	s := Stats{
		Sessions: a.welcomed.Load(), InFlight: a.supervisor.InFlight(), Assigned: a.supervisor.Ref() != nil,
		Unacked: a.outbox.Waiting(), UnackedBytes: a.outbox.Size(),
	}
	s.Merges, s.DroppedRows = a.outbox.Losses()
	if c := a.clock.Load(); c != nil {
		s.Connected = true
		if o, known := c.Now(); known {
			s.ClockOffset, s.ClockUncertainty, s.ClockKnown = time.Duration(o.Nanos), o.Uncertainty, true
		}
	}
	return s
}

// Pauses between attempts to connect. With an assignment the pauses are shorter, because its lease is running.
const (
	minRetryPause     = 100 * time.Millisecond
	maxRetryPause     = 5 * time.Second
	maxRetryPauseBusy = time.Second
)

// stableSession is how long a session must last to reset the pause. Otherwise two agents of the same name would keep
// displacing each other without a pause.
const stableSession = 5 * time.Second

// stayConnected holds one session after the other until ctx ends.
func (a *Agent) stayConnected(ctx context.Context) {
	var pause time.Duration
	logged := loggedReasons{}
	for {
		var since time.Time
		err := a.connect(ctx, func(w *spatev1.Welcome) {
			a.config.Logger.Info("connected", "coordinator", w.GetCoordinator())
			since = time.Now()
		})
		if ctx.Err() != nil {
			return
		}
		if !since.IsZero() && time.Since(since) >= stableSession {
			pause, logged = 0, nil
		}
		if err != nil && logged.isNew(err) {
			a.config.Logger.Warn("not connected", "error", err)
		}
		longest := maxRetryPause
		if a.supervisor.Ref() != nil {
			longest = maxRetryPauseBusy
		}
		pause = min(max(2*pause, minRetryPause), longest)
		// Half to all of the pause, so that agents that lost the same coordinator do not return all at once.
		if !clock.Sleep(ctx, pause/2+rand.N(pause/2+1)) {
			return
		}
	}
}
