// Package agentcmd is the command of an agent: the program spate-agent, and `spate agent`.
package agentcmd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"regexp"
	"strings"
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
	"github.com/spate-load/spate/internal/cli/daemon"
	"github.com/spate-load/spate/internal/cli/settings"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// flags are the settings of the agent.
type flags struct {
	name, region       string
	labelTexts         []string
	labels             map[string]string
	coordinators       []string
	allowed, sources   []string
	weight, maxStreams uint32
	maxRate            float64
	datasetDir         string
	keepDatasets       settings.Keep
	capacity           string
	leaveTimeout       time.Duration
	plaintext          bool
	realtime           host.Realtime
	packetTimes        settings.PacketTimes
	gossip             settings.Gossip
	tls                settings.TLS
	status             daemon.Status
	set                *pflag.FlagSet
}

// New makes the command. program is what people type to run it: spate-agent or spate agent. The command blocks until
// SIGINT or SIGTERM.
func New(program, version string) *cobra.Command {
	f := &flags{realtime: host.RealtimeAuto}
	cmd := daemon.New(daemon.Description{
		Program: program, Version: version,
		Short: "Agent of Spate: generates the load that the coordinator assigns",
		Long: `The agent finds its coordinator by gossip (--join any member) or by address (--coordinator), waits
for assignments and generates their load. It dials the coordinator, so it works behind NAT.

After SIGTERM the agent leaves: other agents take over what it has not begun, and it ends when what
it had begun has ended, after --leave-timeout at the latest. Nothing is missing then. A second
SIGTERM, or SIGINT (Ctrl-C), ends it at once.`,
		Example: `  PROGRAM --join 127.0.0.1:7946 --region eu
  PROGRAM --coordinator 127.0.0.1:7700 --region us --weight 2`,
	}, f.run)
	fs := cmd.Flags()
	f.set = fs
	fs.StringVar(&f.name, "name", "", "unique name of this agent (default: host name and a random suffix)")
	fs.StringVar(&f.region, "region", "", "region that this agent is in")
	fs.StringSliceVar(&f.labelTexts, "label", nil,
		"`NAME=VALUE` that plans and flags select agents by; may be repeated; region=VALUE is --region")
	fs.StringSliceVar(&f.coordinators, "coordinator", nil,
		"`host:port` of the coordinator, or of several to try in turn, instead of gossip")
	fs.StringSliceVar(
		&f.allowed,
		"allow-target",
		nil,
		"`hosts` that this agent may send to: names, addresses or networks, with or without :PORT; * matches no dot (default: all)",
	)
	fs.StringSliceVar(
		&f.sources,
		"source-address",
		nil,
		"local `addresses` to connect to targets from, in turn: each adds a range of ports (default: the system picks)",
	)
	fs.Uint32Var(&f.weight, "weight", 1,
		"weight of this agent's stripe of the load; if none is given and all agents are calibrated, their capacity decides")
	fs.StringVar(
		&f.capacity,
		"capacity",
		"",
		"`file` written by spate calibrate, or none (default: the one that calibrate keeps, if it is of this machine)",
	)
	fs.Uint32Var(&f.maxStreams, "max-streams", 0, "largest number of requests in flight (default: what the descriptor limit allows)")
	fs.Float64Var(
		&f.maxRate,
		"max-rate",
		0,
		"largest number of requests per second that this agent starts: it rejects its part of an open loop if that is more, and ends a closed loop or replay that exceeds it (0: not limited)",
	)
	fs.StringVar(
		&f.datasetDir,
		"dataset-dir",
		settings.DatasetDir(),
		"`directory` of datasets, by hash; missing ones come from the coordinator",
	)
	f.keepDatasets = settings.Keep{For: 90 * 24 * time.Hour, Size: 32 << 30}
	f.keepDatasets.AddFlags(fs, "datasets", "datasets")
	fs.DurationVar(&f.leaveTimeout, "leave-timeout", 5*time.Minute,
		"how long the agent may take to hand over its part of a stage after SIGTERM (0: it ends at once)")
	fs.BoolVar(&f.plaintext, "insecure-plaintext", false,
		"connect to a coordinator beyond loopback without encryption: only on a network you trust")
	fs.Var(&f.realtime, "realtime", host.RealtimeUsage)
	f.packetTimes.AddFlag(fs)
	f.tls.AddFlags(fs)
	f.status.AddFlags(fs)
	f.gossip.AddFlags(fs, "127.0.0.1:0")
	return cmd
}

// run serves until ctx ends.
func (f *flags) run(ctx context.Context, version string, logger *slog.Logger) error {
	settings.Prefer(f.set, "join", "coordinator")
	if err := errors.Join(f.check(), f.tls.Check(logger), f.status.Check()); err != nil {
		return command.BadInput(err)
	}
	creds, err := f.tls.Dial(certs.Agent)
	if err != nil {
		return command.BadInput(err)
	}
	if f.name == "" {
		host, _ := os.Hostname() // empty: it has none
		f.name = defaultName(host)
	}
	exact, err := f.exact(version, logger)
	if err != nil {
		return command.BadInput(err)
	}
	packetTimes, err := f.packetTimes.Use(func(line string) { logger.Info("times of packets", "note", line) })
	if err != nil {
		return command.BadInput(err)
	}
	finder, closeFinder, err := f.finder(logger)
	if err != nil {
		return err
	}
	defer closeFinder()
	host.CollectLess()
	if err := f.realtime.Apply(logger); err != nil {
		return command.BadInput(err)
	}
	a, err := agent.New(agent.Config{
		Name: f.name, Region: f.region, Labels: f.labels, Version: version, Weight: f.weight, MaxStreams: f.maxStreams,
		MaxRate: f.maxRate, AllowedTargets: f.allowed, Logger: logger,
		DatasetDir: f.datasetDir, KeepDatasets: f.keepDatasets.Limits(), SourceAddresses: f.sources, Capacity: exact,
		PacketTimes: packetTimes,
		WeightGiven: f.set.Changed("weight"), LeaveOn: daemon.ErrTerminated, LeaveTimeout: f.leaveTimeout,
		Coordinator: settings.InTurn(finder, f.checkPlain),
		DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(creds)},
		BulkOptions: []grpc.DialOption{grpc.WithTransportCredentials(yielding.Credentials(creds))},
	})
	if err != nil {
		return command.BadInput(err)
	}
	stop, err := f.status.Serve(ctx, metrics(a.Stats), healthy(a.Stats), logger)
	if err != nil {
		return err
	}
	defer stop()
	logger.Info("agent is ready", "name", f.name, "region", f.region, "labels", f.labels)
	if err := a.Run(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// check finds mistakes in the flags that the packages behind them cannot see.
func (f *flags) check() error {
	var errs []error
	if (len(f.coordinators) == 0) == (len(f.gossip.Join) == 0) {
		errs = append(
			errs,
			errors.New("no coordinator is named: give --coordinator host:port, or --join a gossip member"),
		)
	}
	for _, address := range f.coordinators {
		if err := settings.CheckAddress(address); err != nil {
			errs = append(errs, fmt.Errorf("--coordinator %w", err))
		} else {
			errs = append(errs, f.checkPlain(address))
		}
	}
	if f.leaveTimeout < 0 {
		errs = append(errs, fmt.Errorf("--leave-timeout %v: want 0 or more", f.leaveTimeout))
	}
	if f.weight == 0 {
		errs = append(errs, errors.New("--weight 0: want at least 1"))
	}
	if f.name != "" {
		if err := naming.CheckName(f.name); err != nil {
			errs = append(errs, fmt.Errorf("--name %w", err))
		}
	}
	errs = append(errs, f.readLabels())
	return errors.Join(append(errs, f.keepDatasets.Check("datasets"), checkDirectory(f.datasetDir))...)
}

// readLabels reads --region and --label, which may name the region too.
func (f *flags) readLabels() (err error) {
	if err := naming.CheckRegion(f.region); err != nil {
		return fmt.Errorf("--region %q: %w", f.region, err)
	}
	if f.labels, err = naming.Labels(f.labelTexts); err != nil {
		return fmt.Errorf("--label %w", err)
	}
	region := f.labels[naming.RegionLabel]
	if region != "" && f.region != "" && region != f.region {
		return fmt.Errorf("--label region=%s and --region %s differ: give one of them", region, f.region)
	}
	f.region = cmp.Or(f.region, region)
	delete(f.labels, naming.RegionLabel)
	return nil
}

// exact returns what calibration found for this machine, or nil if no calibration is known. A file named by --capacity
// must exist and be from this machine. A file at the default path that does not fit is skipped with a warning.
func (f *flags) exact(version string, logger *slog.Logger) (*spatev1.Capacity, error) {
	if f.capacity == "none" {
		return nil, nil
	}
	path := cmp.Or(f.capacity, host.CapacityPath())
	found, err := host.ReadCapacity(path, host.ThisMachine(version))
	switch {
	case err == nil:
	case errors.Is(err, host.ErrDamaged):
		aside, renamed := host.SetCapacityAside(path)
		logger.Warn("the stored capacity is damaged: it is set aside",
			"file", aside, "error", errors.Join(err, renamed))
		return nil, nil
	case f.capacity != "":
		return nil, fmt.Errorf("--capacity: %w", err)
	case errors.Is(err, host.ErrNotFound):
		logger.Info("this machine is not calibrated: spate calibrate finds the load up to which it is exact")
		return nil, nil
	default:
		logger.Warn("the stored capacity is not used", "error", err)
		return nil, nil
	}
	logger.Info("this machine was exact in calibration", "streams", found.Streams,
		"frames_per_second", math.Round(found.FramesPerSecond),
		"starts_per_second", found.StartsPerSecond, "measured_at", found.MeasuredAt, "by", found.Machine.Version,
		"file", path)
	return found.Proto(), nil
}

// checkDirectory finds early that datasets cannot be kept. They arrive only shortly before a stage starts.
func checkDirectory(path string) error {
	if path == "" {
		return errors.New("--dataset-dir is empty: name a directory")
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return fmt.Errorf("--dataset-dir %s: is a file: name a directory", path)
	}
	return nil
}

// checkPlain refuses a plaintext connection to another machine without permission.
func (f *flags) checkPlain(address string) error { return f.tls.CheckPlain(address, f.plaintext) }

// finder finds the coordinator by gossip or in the list of addresses.
func (f *flags) finder(logger *slog.Logger) (membership.Finder, func(), error) {
	if len(f.coordinators) > 0 {
		return membership.Static(f.coordinators), func() {}, nil
	}
	config, err := f.gossip.Config(f.name, membership.Meta{Role: membership.RoleAgent, Region: f.region},
		f.plaintext, logger)
	if err != nil {
		return nil, nil, command.BadInput(err)
	}
	cluster, err := membership.Join(config)
	if err != nil {
		return nil, nil, err
	}
	logger.Info("gossip is ready", "address", cluster.Address())
	return cluster, func() { _ = cluster.Close() }, nil
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
