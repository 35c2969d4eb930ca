// Package agentcmd is the command of an agent: the program spate-agent, and `spate agent`.
package agentcmd

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/spate-load/spate/agent"
	"github.com/spate-load/spate/agent/host"
	"github.com/spate-load/spate/agent/yielding"
	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/coordinator/membership"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/reason"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// flags are the settings of the agent.
type flags struct {
	Name         string            `flag:"name" help:"unique name of this agent (default: host name and a random suffix)"`
	Region       string            `flag:"region" help:"region that this agent is in"`
	Labels       []string          `flag:"label" help:"<NAME=VALUE> that plans and flags select agents by; may be repeated; region=VALUE is --region"`
	Coordinators []string          `flag:"coordinator" help:"<host:port> of the coordinator, or of several to try in turn, instead of gossip"`
	Allowed      []string          `flag:"allow-target" help:"<hosts> that this agent may send to: names, addresses or networks, with or without :PORT; * matches no dot (default: all)"`
	Sources      []string          `rare:"yes" flag:"source-address" help:"local <addresses> to connect to targets from, in turn: each adds a range of ports (default: the system picks)"`
	Weight       uint32            `rare:"yes" flag:"weight" default:"1" help:"weight of this agent's stripe of the load; if none is given and all agents are calibrated, their capacity decides"`
	Capacity     string            `rare:"yes" flag:"capacity" help:"<file> written by spate calibrate, or none (default: the one that calibrate keeps, if it is of this machine)"`
	MaxStreams   uint32            `rare:"yes" flag:"max-streams" help:"largest number of requests in flight (default: what the descriptor limit allows)"`
	MaxRate      float64           `rare:"yes" flag:"max-rate" help:"largest number of requests per second that this agent starts: it rejects its part of an open loop if that is more, and ends a closed loop or replay that exceeds it (0: not limited)"`
	StateDir     string            `rare:"yes" flag:"state-dir" help:"<directory> that keeps the certificates of agents that joined by an invitation (default: spate in the user's configuration folder)"`
	DatasetDir   string            `rare:"yes" flag:"dataset-dir" help:"<directory> of datasets, by hash; missing ones come from the coordinator"`
	LeaveTimeout time.Duration     `rare:"yes" flag:"leave-timeout" default:"5m" help:"how long the agent may take to hand over its part of a stage after SIGTERM (0: it ends at once)"`
	Probe        []string          `rare:"yes" flag:"probe" help:"<host:port> addresses to which the agent measures the round trip when it starts, for run --on"`
	UntilAlone   time.Duration     `rare:"yes" flag:"until-alone" help:"end after this long without a coordinator and without requests, or when standard input has a line (0: never)"`
	Plaintext    bool              `flag:"insecure-plaintext" help:"connect to a coordinator beyond loopback without encryption: only on a network you trust"`
	KeepDatasets command.Keep      `rare:"yes" with:"KEPT=datasets|WHAT=datasets|AGE=2160h|SPACE=32GiB"`
	Exactness    command.Exactness `rare:"yes"`
	Gossip       command.Gossip    `with:"LISTEN=127.0.0.1:0|JOIN=an invitation, <spate://...>, as the coordinator prints it; or gossip addresses of any members"`
	TLS          command.TLS
	Status       command.Status

	labels map[string]string // from Labels
	set    *pflag.FlagSet
}

//go:embed help.txt
var manual command.Manual

// New makes the command. program is what people type to run it: spate-agent or spate agent. The command blocks until
// SIGINT or SIGTERM.
func New(program, version string) *cobra.Command {
	f := &flags{DatasetDir: command.DatasetDir()}
	cmd := manual.NewDaemon("agent", program, version, f.run, f)
	f.set = cmd.Flags()
	return cmd
}

// run serves until ctx ends.
func (f *flags) run(ctx context.Context, version string, logger *slog.Logger) error {
	command.Prefer(f.set, "join", "coordinator")
	if err := errors.Join(f.check(), f.Status.Check()); err != nil {
		return command.BadInput(err)
	}
	machine, _ := os.Hostname() // empty: it has none
	name := cmp.Or(f.Name, defaultName(machine))
	lock, err := f.join(ctx, name, logger)
	if err = errors.Join(err, f.TLS.Check(logger)); err != nil {
		return command.BadInput(err)
	}
	defer func() { _ = lock.Release() }()
	creds, err := f.TLS.Dial(certs.Agent)
	if err != nil {
		return command.BadInput(err)
	}
	f.Name = cmp.Or(f.Name, name)
	exact, err := f.exact(version, logger)
	if err != nil {
		return command.BadInput(err)
	}
	packetTimes, err := f.Exactness.UsePacketTimes(func(line string) { logger.Info("times of packets", "note", line) })
	if err != nil {
		return command.BadInput(err)
	}
	find, dial, closeFinder, err := f.finder(logger)
	if err != nil {
		return err
	}
	defer closeFinder()
	host.CollectLess(25)
	if err := f.Exactness.Realtime.Apply(logger); err != nil {
		return command.BadInput(err)
	}
	a, err := agent.New(agent.Config{
		Name: f.Name, Region: f.Region, Labels: f.labels, Version: version, Weight: f.Weight, MaxStreams: f.MaxStreams,
		MaxRate: f.MaxRate, AllowedTargets: f.Allowed, Logger: logger,
		DatasetDir: f.DatasetDir, KeepDatasets: f.KeepDatasets.Limits(), SourceAddresses: f.Sources, Capacity: exact,
		PacketTimes: packetTimes, RoundTrips: roundTrips(ctx, f.Probe),
		WeightGiven: f.set.Changed("weight"), LeaveOn: command.ErrTerminated, LeaveTimeout: f.LeaveTimeout,
		Coordinator: find,
		DialOptions: append(dial, grpc.WithTransportCredentials(creds)),
		BulkOptions: []grpc.DialOption{grpc.WithTransportCredentials(yielding.Credentials(creds))},
	})
	if err != nil {
		return command.BadInput(err)
	}
	if f.UntilAlone > 0 {
		signal.Ignore(syscall.SIGPIPE) // the reader of the log may be gone
		alone, end := context.WithCancel(ctx)
		defer end()
		ctx = alone
		go func() {
			defer end()
			awaitAlone(ctx, f.UntilAlone, os.Stdin, a.Stats)
		}()
	}
	stop, err := f.Status.Serve(ctx, metrics(a.Stats), healthy(a.Stats), logger)
	if err != nil {
		return err
	}
	defer stop()
	logger.Info("agent is ready", "name", f.Name, "region", f.Region, "labels", f.labels)
	if err := a.Run(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// join makes the agent a member of the cluster of the invitation in --join, if there is one, and keeps its certificate
// renewed until ctx ends. The first agent of a machine has the name in the certificate, so that it keeps it, while it
// has the lock.
func (f *flags) join(ctx context.Context, name string, logger *slog.Logger) (lock *files.Lock, err error) {
	f.TLS.DropLogin()
	if !slices.ContainsFunc(f.Gossip.Join, certs.IsInvitation) {
		return nil, nil
	}
	if len(f.Gossip.Join) > 1 || f.TLS.Given() || f.Gossip.Key != "" {
		return nil, errors.New("--join: an invitation stands alone: no other member, --tls-cert or --gossip-key goes with it")
	}
	m, err := command.NewMember(f.Gossip.Join[0], certs.Agent, f.StateDir, strings.TrimSuffix("agent-"+f.Name, "-"))
	if err != nil {
		return nil, fmt.Errorf("--join: %w", err)
	}
	name, err = m.JoinOnce(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("--join: %w", err)
	}
	logger.Info("joined", "coordinator", m.Address, "certificate", name, "kept_in", m.Dir)
	f.TLS.Files, f.Coordinators, f.Gossip.Join = m.Files, []string{m.Address}, nil
	if f.set.Changed("gossip-listen") {
		f.Coordinators, f.Gossip.Join = nil, []string{""}
		if f.Gossip.Join[0], f.Gossip.Key, err = m.Gossip(); err != nil {
			return nil, err
		}
	}
	go m.KeepRenewed(ctx, logger)
	if lock, err = files.LockDir(m.Dir); err == nil {
		f.Name = cmp.Or(f.Name, name)
	}
	return lock, nil
}

// roundTrips returns the times to connect to addresses, in milliseconds, without those that do not answer within 2 s.
func roundTrips(ctx context.Context, addresses []string) map[string]float64 {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	found := map[string]float64{}
	for _, address := range addresses {
		all.Go(func() {
			began := time.Now()
			if c, err := new(net.Dialer).DialContext(ctx, "tcp", address); err == nil {
				took := float64(time.Since(began)) / 1e6
				_ = c.Close() // nothing was sent
				mu.Lock()
				defer mu.Unlock()
				found[address] = took
			}
		})
	}
	all.Wait()
	return found
}

// awaitAlone blocks until ctx ends, a line comes in, or the agent has had no coordinator and no requests for a time.
// The end of the input does not count: it ends with a connection that may come back.
func awaitAlone(ctx context.Context, most time.Duration, input io.Reader, stats func() agent.Stats) {
	line := make(chan struct{})
	go func() {
		if bufio.NewScanner(input).Scan() {
			close(line)
		}
	}()
	tick := time.NewTicker(aloneCheck)
	defer tick.Stop()
	for alone := time.Duration(0); alone < most; {
		select {
		case <-ctx.Done():
			return
		case <-line:
			return
		case <-tick.C:
			alone += aloneCheck
			if s := stats(); s.Connected || s.InFlight > 0 {
				alone = 0
			}
		}
	}
}

// aloneCheck is how often awaitAlone looks.
const aloneCheck = 100 * time.Millisecond

// check finds mistakes in the flags that the packages behind them cannot see.
func (f *flags) check() error {
	errs := []error{
		reason.If((len(f.Coordinators) == 0) == (len(f.Gossip.Join) == 0),
			"no coordinator is named: give --coordinator host:port, or --join a gossip member"),
		reason.If(f.LeaveTimeout < 0, "--leave-timeout %v: want 0 or more", f.LeaveTimeout),
		reason.If(f.Weight == 0, "--weight 0: want at least 1"),
	}
	for _, address := range f.Coordinators {
		alone := len(f.Coordinators) == 1 || !strings.HasPrefix(address, listens)
		errs = append(errs, reason.If(!alone, "--coordinator %s stands alone: no other address goes with it", address))
		if err := command.CheckAddress(address); err != nil {
			errs = append(errs, fmt.Errorf("--coordinator %w", err))
		} else {
			errs = append(errs, f.checkPlain(address))
		}
	}
	if f.Name != "" {
		err := naming.CheckName(f.Name)
		errs = append(errs, reason.If(err != nil, "--name %w", err))
	}
	return errors.Join(append(errs, f.readLabels(), f.KeepDatasets.Check("datasets"),
		reason.If(f.DatasetDir == "", "--dataset-dir is empty: name a directory"),
		files.CheckDirectory("--dataset-dir", f.DatasetDir))...) // datasets arrive only shortly before a stage starts
}

// readLabels reads --region and --label, which may name the region too.
func (f *flags) readLabels() (err error) {
	if err := naming.CheckRegion(f.Region); err != nil {
		return fmt.Errorf("--region %q: %w", f.Region, err)
	}
	if f.labels, err = naming.Labels(f.Labels); err != nil {
		return fmt.Errorf("--label %w", err)
	}
	region := f.labels[naming.RegionLabel]
	if region != "" && f.Region != "" && region != f.Region {
		return fmt.Errorf("--label region=%s and --region %s differ: give one of them", region, f.Region)
	}
	f.Region = cmp.Or(f.Region, region)
	delete(f.labels, naming.RegionLabel)
	return nil
}

// exact returns what calibration found for this machine, or nil if no calibration is known. A file named by --capacity
// must exist and be from this machine. A file at the default path that does not fit is skipped with a warning.
func (f *flags) exact(version string, logger *slog.Logger) (*spatev1.Capacity, error) {
	if f.Capacity == "none" {
		return nil, nil
	}
	path := cmp.Or(f.Capacity, host.CapacityPath())
	found, err := host.ReadCapacity(path, host.ThisMachine(version))
	switch {
	case errors.Is(err, host.ErrDamaged):
		aside, renamed := host.SetCapacityAside(path)
		logger.Warn("the stored capacity is damaged: it is set aside", "file", aside, "error", errors.Join(err, renamed))
		return nil, nil
	case err != nil && f.Capacity != "":
		return nil, fmt.Errorf("--capacity: %w", err)
	case err != nil:
		logger.Info("no capacity of this machine: spate calibrate finds the load up to which it is exact", "reason", err)
		return nil, nil
	}
	logger.Info("this machine was exact in calibration", "streams", found.Streams,
		"frames_per_second", math.Round(found.FramesPerSecond),
		"starts_per_second", found.StartsPerSecond, "measured_at", found.MeasuredAt, "by", found.Machine.Version,
		"file", path)
	return found.Proto(), nil
}

// checkPlain refuses a plaintext connection to another machine without permission.
func (f *flags) checkPlain(address string) error { return f.TLS.CheckPlain(address, f.Plaintext) }

// finder finds the coordinator by gossip or in the list of addresses, or waits for its connections. dial is for these.
func (f *flags) finder(
	logger *slog.Logger,
) (find func(context.Context) (string, error), dial []grpc.DialOption, end func(), err error) {
	if len(f.Coordinators) > 0 && strings.HasPrefix(f.Coordinators[0], listens) {
		return listen(f.Coordinators[0])
	}
	if len(f.Coordinators) > 0 {
		static := func(context.Context) ([]string, error) { return f.Coordinators, nil }
		return command.InTurn(static, f.checkPlain), nil, func() {}, nil
	}
	config, err := f.Gossip.Config(f.Name, membership.Meta{Role: membership.RoleAgent, Region: f.Region},
		f.Plaintext, logger)
	if err != nil {
		return nil, nil, nil, command.BadInput(err)
	}
	cluster, err := membership.Join(config)
	if err != nil {
		return nil, nil, nil, err
	}
	logger.Info("gossip is ready", "address", cluster.Address())
	return command.InTurn(cluster.Coordinators, f.checkPlain), nil, func() { _ = cluster.Close() }, nil
}

// unusable is what the host's part of a default name may not have or may not begin with.
var unusable = regexp.MustCompile(`^[^A-Za-z0-9]+|[^A-Za-z0-9_-]+`)

// defaultName makes a name that is unique among the agents of a machine. Coordinators take it whatever the host is
// called.
func defaultName(host string) string {
	host, _, _ = strings.Cut(host, ".")
	host = strings.Trim(unusable.ReplaceAllString(host, "-"), "-")
	var b [3]byte
	rand.Read(b[:]) // never fails, by its contract
	return fmt.Sprintf("%.57s-%x", cmp.Or(host, "agent"), b)
}

// metrics returns what Prometheus can scrape from the agent. Times are in seconds.
func metrics(stats func() agent.Stats) command.Collector {
	return func(gauge, counter command.Add) {
		s, number := stats(), map[bool]float64{true: 1}
		gauge("spate_agent_connected", "1 with a session with the coordinator, else 0.", number[s.Connected], nil)
		counter("spate_agent_sessions_total", "Sessions with a coordinator.", float64(s.Sessions), nil)
		gauge("spate_agent_assigned", "1 with an assignment, else 0.", number[s.Assigned], nil)
		gauge("spate_agent_requests_in_flight", "Requests in flight.", float64(s.InFlight), nil)
		gauge("spate_agent_snapshots_unacked", "Snapshots that the coordinator has not acked.", float64(s.Unacked), nil)
		gauge("spate_agent_snapshots_unacked_bytes", "Size of these snapshots.", float64(s.UnackedBytes), nil)
		counter("spate_agent_snapshots_merged_total",
			"Snapshots that were merged because too many waited for the coordinator.", float64(s.Merges), nil)
		counter("spate_agent_rows_dropped_total", "Request rows that were dropped then.", float64(s.DroppedRows), nil)
		if s.ClockKnown {
			gauge("spate_agent_clock_offset_seconds",
				"What to add to this machine's monotonic clock to get the coordinator's.", s.ClockOffset.Seconds(), nil)
			gauge("spate_agent_clock_uncertainty_seconds", "How wrong the offset may be.", s.ClockUncertainty.Seconds(), nil)
		}
	}
}

// healthy returns a function that returns an error if the agent cannot get work.
func healthy(stats func() agent.Stats) func() error {
	return func() error {
		if !stats().Connected {
			return errors.New("not connected to a coordinator")
		}
		return nil
	}
}
