// Package coordinatorcmd is the command of a coordinator: the program spate-coordinator, and `spate coordinator`.
package coordinatorcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/aggregate/sink/exposition"
	"github.com/spate-load/spate/compare/history"
	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/coordinator/fleet"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/membership"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/daemon"
	"github.com/spate-load/spate/internal/cli/settings"
	"github.com/spate-load/spate/internal/cli/sinks"
	"github.com/spate-load/spate/internal/cli/webserver"
)

// flags are the settings of the coordinator.
type flags struct {
	name, listen        string
	dataDir, datasetDir string
	lease, handover     time.Duration
	maxWaiting          int
	maxRuns             int
	expect              []string
	require             bool
	access              string
	expected            fleet.Expected
	keepRuns            settings.Keep
	keepDatasets        settings.Keep
	maxDataset          settings.Size
	plaintext, noGossip bool
	gossip              settings.Gossip
	tls                 settings.TLS
	status              daemon.Status
	web                 webserver.Flags
	sinks               sinks.Sinks
}

// New makes the command. program is what people type to run it: spate-coordinator or spate coordinator. The command
// blocks until SIGINT or SIGTERM.
func New(program, version string) *cobra.Command {
	f := &flags{}
	cmd := daemon.New(daemon.Description{
		Program: program, Version: version,
		Short: "Coordinator of Spate: splits plans over agents and merges what they measure",
		Long: `The coordinator waits for agents, splits the plans that "spate run --coordinator" submits over them,
and merges what they measure. Agents find it by gossip (--join the address that it logs) or by its
--listen address (--coordinator). Runs are kept in --data-dir.

After SIGTERM, a crash or a power cut, the coordinator that is started next with the same --data-dir
continues the run in progress; agents continue meanwhile, for --lease. SIGINT (Ctrl-C) ends the run;
what was measured is kept.`,
		Example: `  PROGRAM
  PROGRAM --listen 10.0.0.1:7700 --gossip-listen 10.0.0.1:7946 \
    --gossip-key file:gossip.key --tls-ca certs/ca.crt \
    --tls-cert certs/coordinator.crt --tls-key certs/coordinator.key`,
	}, f.run)
	host, _ := os.Hostname()
	fs := cmd.Flags()
	fs.StringVar(&f.name, "name", host, "name of this coordinator in gossip and logs")
	fs.StringVar(&f.listen, "listen", "127.0.0.1:7700", "`IP:PORT` of the control, metrics and run services")
	fs.StringVar(&f.dataDir, "data-dir", "runs", "`directory` that the ledgers of runs are kept in")
	fs.StringVar(&f.datasetDir, "dataset-dir", "",
		"`directory` of datasets, by hash, for agents to fetch (default: datasets in --data-dir)")
	fs.DurationVar(&f.lease, "lease", 30*time.Second,
		"how long agents continue without this coordinator before they drain and end, at least "+
			leastLease.String())
	fs.DurationVar(
		&f.handover,
		"reassign-lease",
		10*time.Second,
		"the lease in stages with on_agent_loss: reassign, after which other agents take over; at most --lease, at least "+leastLease.String(),
	)
	fs.IntVar(&f.maxWaiting, "max-waiting", 64, "largest number of runs in the queue; more are refused")
	fs.IntVar(&f.maxRuns, "max-runs", 16,
		"largest number of runs in progress at once, each with agents and servers of its own")
	fs.StringSliceVar(&f.expect, "expect-agents", nil,
		"`agents` that should be connected, by name, or as numbers by region such as eu=10; missing ones are listed")
	fs.BoolVar(&f.require, "require-agents", false, "begin no run without the agents of --expect-agents")
	fs.StringVar(&f.access, "access", "", "`file` that says who may do what, and the most load of targets; it is read "+
		"again when it changes (default: clients may do everything)")
	f.keepRuns.AddFlags(fs, "runs", "runs that have ended")
	f.keepDatasets = settings.Keep{For: 90 * 24 * time.Hour, Size: 64 << 30}
	f.keepDatasets.AddFlags(fs, "datasets", "datasets")
	f.maxDataset = 64 << 30
	fs.Var(&f.maxDataset, "max-dataset-size", "largest dataset accepted from a client (0: any)")
	fs.BoolVar(&f.plaintext, "insecure-plaintext", false,
		"serve beyond loopback without encryption or authentication: only on a network you trust")
	fs.BoolVar(&f.noGossip, "no-gossip", false, "do not use gossip: agents need --coordinator with this --listen address")
	f.tls.AddFlags(fs)
	f.status.AddFlags(fs)
	f.web.AddFlags(fs, "", "`IP:PORT` that shows runs to browsers and serves them to programs (REST); empty: none")
	f.gossip.AddFlags(fs, "127.0.0.1:7946")
	f.sinks.AddFlags(fs)
	return cmd
}

// leastLease is long enough for an agent that is silent for a moment, and for an agent to be sure that its lease is
// over.
const leastLease = 5 * time.Second

// run serves until ctx ends.
func (f *flags) run(ctx context.Context, version string, logger *slog.Logger) error {
	spareProcessor()
	if err := errors.Join(f.check(), f.tls.Check(logger), f.status.Check(),
		f.web.Check(f.tls.Files, f.plaintext)); err != nil {
		return command.BadInput(err)
	}
	openSink, err := f.sinks.Opener(ctx, logger)
	if err != nil {
		return command.BadInput(err)
	}
	gossip, err := f.membership(logger)
	if err != nil {
		return command.BadInput(err)
	}
	if f.web.Access, err = f.openAccess(logger); err != nil {
		return command.BadInput(err)
	}
	c, err := coordinator.New(coordinator.Config{
		Name: f.name, Version: version, Listen: f.listen, TLS: f.tls.Files, InsecurePlaintext: f.plaintext,
		DataDir: f.dataDir, Gossip: gossip, Logger: logger,
		OpenSink: openSink, DatasetDir: f.datasetDir, Lease: f.lease, MaxWaiting: f.maxWaiting, MaxRuns: f.maxRuns,
		LeaveOn: daemon.ErrTerminated, Expected: f.expected, RequireExpected: f.require,
		Access:   f.web.Access,
		KeepRuns: f.keepRuns.Limits(), KeepDatasets: f.keepDatasets.Limits(), MaxDataset: uint64(f.maxDataset),
		OpenHistory: func(dir string, log *slog.Logger) (coordinator.History, error) { return history.Open(dir, log) },
		Run:         lifecycle.Config{ReassignLease: min(f.handover, f.lease)},
	})
	if err != nil {
		return command.BadInput(err)
	}
	f.status.Results = exposition.Gatherer(c.LatestRows)
	stop, err := f.status.Serve(ctx, metrics(c.Stats), func() error { return nil }, logger)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	defer stop()
	pages, err := f.web.Start(ctx, c, f.tls.Files, logger)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	defer pages.Close()
	return c.Run(ctx)
}

// check finds mistakes in the flags that the packages behind them cannot see.
func (f *flags) check() error {
	errs := []error{f.checkExpected(), f.checkServing()}
	if f.dataDir == "" {
		errs = append(errs, errors.New("--data-dir is empty: name a directory"))
	}
	if f.lease < leastLease {
		errs = append(
			errs,
			fmt.Errorf(
				"--lease %v: want at least %v: agents send a heartbeat each second, and a few may be late",
				f.lease,
				leastLease,
			),
		)
	}
	if f.handover < leastLease {
		errs = append(errs, fmt.Errorf("--reassign-lease %v: want at least %v, as --lease", f.handover, leastLease))
	}
	if f.maxWaiting < 1 {
		errs = append(errs, fmt.Errorf("--max-waiting %d: want at least 1", f.maxWaiting))
	}
	if f.maxRuns < 1 {
		errs = append(errs, fmt.Errorf("--max-runs %d: want at least 1", f.maxRuns))
	}
	for _, dir := range [][2]string{{"--data-dir", f.dataDir}, {"--dataset-dir", f.datasetDir}} {
		if info, err := os.Stat(dir[1]); err == nil && !info.IsDir() {
			errs = append(errs, fmt.Errorf("%s %s: is a file: name a directory", dir[0], dir[1]))
		}
	}
	return errors.Join(append(errs, f.sinks.Validate(), f.keepRuns.Check("runs"), f.keepDatasets.Check("datasets"))...)
}

// checkServing finds mistakes in the flags about who can connect.
func (f *flags) checkServing() error {
	var errs []error
	if _, _, err := net.SplitHostPort(f.listen); err == nil && !f.tls.Given() && !f.plaintext &&
		!settings.Loopback(f.listen) {
		errs = append(
			errs,
			fmt.Errorf(
				"--listen %s can be reached from other machines and would be unencrypted: give --tls-ca, --tls-cert and "+
					"--tls-key (`spate certs --help` says how to make them), listen on 127.0.0.1, or give --insecure-plaintext if you trust the network",
				f.listen,
			),
		)
	}
	if f.noGossip && len(f.gossip.Join) > 0 {
		errs = append(errs, errors.New("--join and --no-gossip exclude one another"))
	}
	return errors.Join(errs...)
}

// checkExpected reads the agents that are expected.
func (f *flags) checkExpected() (err error) {
	if f.expected, err = fleet.ParseExpected(f.expect); err != nil {
		return fmt.Errorf("--expect-agents %w", err)
	}
	if f.require && len(f.expect) == 0 {
		return errors.New("--require-agents needs --expect-agents")
	}
	return nil
}

// openAccess reads the file that says who may do what. Nil: there is none.
func (f *flags) openAccess(logger *slog.Logger) (*access.File, error) {
	if f.access == "" {
		return nil, nil
	}
	file, err := access.Open(f.access, settings.Secret, logger)
	if err != nil {
		return nil, fmt.Errorf("--access: %w", err)
	}
	return file, nil
}

// membership returns the coordinator's gossip configuration, or nil if it does not take part in gossip.
func (f *flags) membership(logger *slog.Logger) (*membership.Config, error) {
	if f.noGossip {
		return nil, nil
	}
	config, err := f.gossip.Config(f.name, membership.Meta{Role: membership.RoleCoordinator}, f.plaintext, logger)
	return &config, err
}
