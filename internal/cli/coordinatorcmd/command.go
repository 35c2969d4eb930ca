// Package coordinatorcmd is the command of a coordinator: the program spate-coordinator, and `spate coordinator`. It has
// the flags of databases and of the web server too, which coordinators of local runs also have.
package coordinatorcmd

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/spate-load/spate/agent/host"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/compare/history"
	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/membership"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/reason"
)

// flags are the settings of the coordinator.
type flags struct {
	Name         string        `rare:"yes" flag:"name" help:"name of this coordinator in gossip and logs"`
	Listen       string        `flag:"listen" default:"127.0.0.1:7700" help:"<IP:PORT> of the control, metrics and run services"`
	Advertise    string        `rare:"yes" flag:"advertise" help:"<host:port> at which others reach --listen, for invitations (default: the listen address, or this machine's first private one)"`
	JoinedFor    time.Duration `rare:"yes" flag:"joined-validity" default:"720h" help:"how long certificates of those who join by an invitation are valid; they are renewed before"`
	DataDir      string        `flag:"data-dir" default:"runs" help:"<directory> that the ledgers of runs are kept in"`
	DatasetDir   string        `rare:"yes" flag:"dataset-dir" help:"<directory> of datasets, by hash, for agents to fetch (default: datasets in --data-dir)"`
	Lease        time.Duration `flag:"lease" default:"30s" help:"how long agents continue without this coordinator before they drain and end, at least 5s"`
	Handover     time.Duration `rare:"yes" flag:"reassign-lease" default:"10s" help:"the lease in stages with on_agent_loss: reassign, after which other agents take over; at most --lease, at least 5s"`
	MaxWaiting   int           `rare:"yes" flag:"max-waiting" default:"64" help:"largest number of runs in the queue; more are refused"`
	MaxRuns      int           `rare:"yes" flag:"max-runs" default:"16" help:"largest number of runs in progress at once, each with agents and servers of its own"`
	Access       string        `flag:"access" help:"<file> that says who may do what; it is read again when it changes (default: clients may do everything)"`
	MaxDataset   command.Size  `rare:"yes" flag:"max-dataset-size" default:"64GiB" help:"largest dataset accepted from a client (0: any)"`
	Plaintext    bool          `flag:"insecure-plaintext" help:"serve beyond loopback without encryption or authentication: only on a network you trust"`
	NoGossip     bool          `flag:"no-gossip" help:"do not use gossip: agents need --coordinator with this --listen address"`
	KeepRuns     command.Keep  `with:"KEPT=runs|WHAT=runs that have ended|AGE=0|SPACE=0"`
	KeepDatasets command.Keep  `rare:"yes" with:"KEPT=datasets|WHAT=datasets|AGE=2160h|SPACE=64GiB"`
	TLS          command.TLS
	Status       command.Status
	Web          WebFlags       `with:"ADDRESS=web-listen|BARE=|SERVES=<IP:PORT> that shows runs to browsers and serves them to programs (REST); empty: none"`
	Gossip       command.Gossip `with:"LISTEN=127.0.0.1:7946|JOIN=gossip <addresses> of any members to join"`
	Sinks        Sinks
}

//go:embed help.txt
var manual command.Manual

// New makes the command. program is what people type to run it: spate-coordinator or spate coordinator. The command
// blocks until SIGINT or SIGTERM.
func New(program, version string) *cobra.Command {
	f := &flags{}
	f.Name, _ = os.Hostname()
	return manual.NewDaemon("coordinator", program, version, f.run, f)
}

// leastLease is long enough for an agent that is silent for a moment, and for an agent to be sure that its lease is
// over.
const leastLease = 5 * time.Second

// leastJoined leaves time to renew a certificate.
const leastJoined = 10 * time.Second

// run serves until ctx ends.
func (f *flags) run(ctx context.Context, version string, logger *slog.Logger) error {
	// Go takes a processor from a goroutine that waits for the disk only when it notices the wait, after up to 10 ms.
	// With a single processor, each write of the ledger would delay all answers that long, including heartbeats and
	// clock probes. Two processors share the core, and cost nothing more.
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) == 1 {
		runtime.GOMAXPROCS(2)
	}
	host.CollectLess(100)
	if err := errors.Join(f.check(), f.Status.Check()); err != nil {
		return command.BadInput(err)
	}
	enrolment, err := f.enrolment(logger)
	if err = errors.Join(err, f.TLS.Check(logger), f.Web.Check(f.TLS.Files, f.Plaintext)); err != nil {
		return command.BadInput(err)
	}
	openSink, err := f.Sinks.Opener(ctx, logger)
	if err != nil {
		return command.BadInput(err)
	}
	gossip, err := f.membership(logger)
	if err != nil {
		return command.BadInput(err)
	}
	if f.Web.Access, err = f.openAccess(logger); err != nil {
		return command.BadInput(err)
	}
	c, err := coordinator.New(coordinator.Config{
		Name: f.Name, Version: version, Listen: f.Listen, TLS: f.TLS.Files, InsecurePlaintext: f.Plaintext,
		Enrolment: enrolment,
		DataDir:   f.DataDir, Gossip: gossip, Logger: logger,
		OpenSink: openSink, DatasetDir: f.DatasetDir, Lease: f.Lease, MaxWaiting: f.MaxWaiting, MaxRuns: f.MaxRuns,
		LeaveOn:  command.ErrTerminated,
		Access:   f.Web.Access,
		KeepRuns: f.KeepRuns.Limits(), KeepDatasets: f.KeepDatasets.Limits(), MaxDataset: uint64(f.MaxDataset),
		OpenHistory: func(dir string, log *slog.Logger) (coordinator.History, error) { return history.Open(dir, log) },
		Run:         lifecycle.Config{ReassignLease: min(f.Handover, f.Lease)},
	})
	if err != nil {
		return command.BadInput(err)
	}
	f.Status.Results = sink.Gatherer(c.LatestRows)
	stop, err := f.Status.Serve(ctx, metrics(c.Stats), func() error { return nil }, logger)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	defer stop()
	pages, err := f.Web.Start(ctx, c, f.TLS.Files, logger)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	defer pages.Close()
	return c.Run(ctx)
}

// check finds mistakes in the flags that the packages behind them cannot see.
func (f *flags) check() error {
	errs := []error{
		reason.If(f.Lease < leastLease, "--lease %v: want at least %v: agents send a heartbeat each second, and a few "+
			"may be late", f.Lease, leastLease),
		reason.If(f.Handover < leastLease, "--reassign-lease %v: want at least %v, as --lease", f.Handover, leastLease),
		reason.If(f.JoinedFor < leastJoined, "--joined-validity %v: want at least %v", f.JoinedFor, leastJoined),
		reason.If(f.NoGossip && len(f.Gossip.Join) > 0, "--join and --no-gossip exclude one another"),
		files.CheckDirectory("--data-dir", f.DataDir),
		files.CheckDirectory("--dataset-dir", f.DatasetDir),
	}
	return errors.Join(append(errs, f.Sinks.Validate(), f.KeepRuns.Check("runs"), f.KeepDatasets.Check("datasets"))...)
}

// openAccess reads the file that says who may do what. Nil: there is none.
func (f *flags) openAccess(logger *slog.Logger) (*access.File, error) {
	if f.Access == "" {
		return nil, nil
	}
	file, err := access.Open(f.Access, command.Secret, logger)
	if err != nil {
		return nil, fmt.Errorf("--access: %w", err)
	}
	return file, nil
}

// membership returns the coordinator's gossip configuration, or nil if it does not take part in gossip.
func (f *flags) membership(logger *slog.Logger) (*membership.Config, error) {
	if f.NoGossip {
		return nil, nil
	}
	config, err := f.Gossip.Config(f.Name, membership.Meta{Role: membership.RoleCoordinator}, f.Plaintext, logger)
	return &config, err
}

// metrics returns what Prometheus can scrape from the coordinator. Each scrape reads the state once, because that takes
// time with many agents.
func metrics(stats func() coordinator.Stats) command.Collector {
	return func(gauge, counter command.Add) {
		s := stats()
		for _, health := range []string{"ready", "busy", "silent"} {
			gauge("spate_coordinator_agents", "Agents that are connected, by health.", float64(s.Agents[health]),
				prometheus.Labels{"health": health})
		}
		gauge("spate_coordinator_agents_cordoned", "Agents that take no new runs.", float64(s.Cordoned), nil)
		gauge("spate_coordinator_runs_in_progress", "Runs in progress.", float64(len(s.Runs)), nil)
		counter("spate_coordinator_windows_total", "Windows that were merged and sent on.", float64(s.Windows), nil)
		gauge("spate_coordinator_window_delay_seconds",
			"Time from the end of the last of them until then.", s.WindowDelay.Seconds(), nil)
		gauge("spate_coordinator_runs_waiting", "Runs that wait for others to end.", float64(s.Waiting), nil)
		counter("spate_coordinator_runs_restarted_total",
			"Runs that were continued after a restart of this coordinator.", float64(s.Restarts), nil)
		counter("spate_coordinator_leases_renewed_total",
			"Heartbeats of agents that were answered.", float64(s.Renewals), nil)
		counter("spate_coordinator_snapshots_total", "Snapshots written to the ledger.", float64(s.Snapshots), nil)
		counter("spate_coordinator_snapshots_duplicate_total",
			"Snapshots that were in the ledger already.", float64(s.Duplicates), nil)
		counter("spate_coordinator_snapshots_refused_total",
			"Snapshots that were invalid, of another run, or too large.", float64(s.Refused), nil)
		counter("spate_coordinator_snapshots_given_up_total",
			"Snapshots of agents whose load others had taken over, or that did not come in time.", float64(s.Dropped), nil)
		counter("spate_coordinator_limited_total",
			"Connections, streams and messages beyond the limits.", float64(s.Limited), nil)
		counter("spate_coordinator_connections_refused_total",
			"Connections without a certificate of the cluster.", float64(s.ConnectionsRefused), nil)
		counter("spate_coordinator_calls_refused_total",
			"Calls that the caller's role does not allow.", float64(s.CallsRefused), nil)
	}
}

// enrolment opens the coordinator's own authority, if the coordinator is reached from other machines and was given no
// certificates, sets the flags for certificates and gossip keys, and prints invitations. Nil: there is none.
func (f *flags) enrolment(logger *slog.Logger) (*access.Enrolment, error) {
	f.TLS.DropLogin()
	if f.TLS.Given() || f.Plaintext || command.Loopback(f.Listen) && f.Advertise == "" {
		return nil, nil
	}
	address := f.Advertise
	if err := command.CheckAddress(cmp.Or(address, f.Listen)); err != nil {
		return nil, fmt.Errorf("--listen or --advertise %w", err)
	}
	if address == "" {
		at, err := membership.Config{Bind: f.Listen}.Advertised()
		if err != nil || at.Port() == 0 {
			return nil, fmt.Errorf("--listen %s: give an address and a port, or --advertise, that others can reach: %w", f.Listen,
				cmp.Or(err, errors.New("port 0 is any")))
		}
		address = at.String()
	}
	dir := filepath.Join(f.DataDir, "certs")
	a, err := certs.OpenOwn(dir, address, time.Now())
	if err != nil {
		return nil, err
	}
	f.TLS.Files = a.Own()
	a.PeopleByName = f.Access != ""
	e := &access.Enrolment{Authority: a, Validity: f.JoinedFor, Log: logger}
	if !f.NoGossip && !command.Loopback(f.Gossip.Listen) {
		if err := f.shareGossip(e, filepath.Join(dir, "gossip.key")); err != nil {
			return nil, err
		}
	}
	return e, f.invite(a, dir)
}

// shareGossip lets those who join take part in gossip. If no key is given, it makes one in a file.
func (f *flags) shareGossip(e *access.Enrolment, path string) error {
	if _, err := os.Stat(path); err != nil && f.Gossip.Key == "" {
		var key [32]byte
		rand.Read(key[:]) // never fails, by its contract
		if err := files.ReplaceSecret(path, []byte(base64.StdEncoding.EncodeToString(key[:]))); err != nil {
			return err
		}
	}
	f.Gossip.Key = cmp.Or(f.Gossip.Key, "file:"+path)
	at, err := membership.Config{Bind: f.Gossip.Listen, Advertise: f.Gossip.Advertise}.Advertised()
	e.Gossip, e.GossipKeys = at.String(), func() (string, error) { return command.Secret(f.Gossip.Key) }
	return err
}

// invite prints what agents and people join by. People get no invitation if some may do more than others: they could
// take any name.
func (f *flags) invite(a *certs.Authority, dir string) error {
	agents, err1 := a.Invite(certs.Agent, "", certs.InvitationValidity, time.Now())
	people, err2 := a.Invite(certs.Client, "", certs.InvitationValidity, time.Now())
	fmt.Printf("Agents join, for 24 hours, by: spate agent --join '%s'\n", agents)
	if f.Access == "" {
		fmt.Printf("People log in by: spate login '%s'\n", people)
	}
	fmt.Printf("Later: spate certs invite agent --dir %s; a person: spate certs invite client NAME --dir %[1]s\n", dir)
	return cmp.Or(err1, err2)
}
