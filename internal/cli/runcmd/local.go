package runcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-load/spate/agent"
	"github.com/spate-load/spate/agent/host"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/coordinatorcmd"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/local"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/simulator"
	"github.com/spate-load/spate/simulator/config"
)

// localFlags say how a coordinator and agents run in this process.
type localFlags struct {
	Agents    embedded                `group:"Where it runs" flag:"agents" help:"<number> of embedded agents, or numbers by region such as eu=2,us=1"`
	On        []string                `group:"Where it runs" flag:"on" commas:"kept" help:"<[REGION=][USER@]HOST,...> to start agents on, by ssh, instead of in this process; or a file of hosts (.yaml), kube:CONTEXT/NAMESPACE?agents=N&image=IMAGE, or slurm:NODES?partition=NAME; may be repeated"`
	Sources   []string                `group:"Where it runs" rare:"yes" flag:"source-address" help:"local <addresses> that embedded agents connect from, in turn: each adds a range of ports (default: the system picks)"`
	Commands  bool                    `group:"Where it runs" rare:"yes" flag:"allow-commands" typed:"only" help:"run the commands of a plan that starts servers, without asking"`
	Exactness command.Exactness       `rare:"yes" group:"Where it runs"`
	LogLevel  string                  `group:"What is kept and shown" rare:"yes" flag:"log-level" default:"warn" words:"debug, info, warn, error" help:"what the embedded coordinator and agents log to standard error: debug, info, warn or error"`
	Web       coordinatorcmd.WebFlags `group:"What is kept and shown" with:"ADDRESS=web|BARE=127.0.0.1:0|SERVES=show the run to browsers, live, and to programs (REST) until it ends, on this <address> of 127.0.0.1 after = (default: a free port)"`
	Metrics   string                  `group:"What is kept and shown" rare:"yes" flag:"http-listen" help:"<IP:PORT> that serves /metrics with merged results to Prometheus until the run ends"`
	Sinks     coordinatorcmd.Sinks    `group:"What is kept and shown"`

	version   string
	labels    map[string]string // of the embedded agents: those that the plan asks for
	simulates bool              // simulators also run in this process
	hosts     []*remoteHost     // of --on
	asks      uint32            // requests in flight that the plan asks for, at most; 0: not known
	servers   []string          // addresses of the plan's endpoints
}

// checkWeb finds mistakes in the flags of the web server. Only this machine may reach the pages of a local run, because
// its coordinator has no certificate.
func (l *localFlags) checkWeb() error {
	l.Web.Local = true
	if _, _, err := net.SplitHostPort(l.Web.Listen); err == nil && !command.Loopback(l.Web.Listen) {
		return fmt.Errorf("--web=%s can be reached from other machines: a local run is served on 127.0.0.1 only; "+
			"ssh -L reaches it from elsewhere", l.Web.Listen)
	}
	return l.Web.Check(certs.Files{}, false)
}

// check finds mistakes in the flags.
func (l *localFlags) check() error {
	_, err := command.Logger(io.Discard, l.LogLevel, "text")
	if len(l.On) > 0 {
		var wrong error
		l.hosts, wrong = parseHosts(l.On)
		l.Agents, err = byRegion(l.hosts, func(h *remoteHost) string { return h.region }), errors.Join(err, wrong)
	}
	return errors.Join(l.Agents.check(), err, l.Sinks.Validate(), l.checkWeb(), l.status().Check())
}

// embed starts a coordinator and agents in this process, connected by an in-memory listener: no port is opened. out is
// the run directory. Empty: runs/RUN-ID. If resume is given, the interrupted run in that directory is resumed.
func (l *localFlags) embed(
	ctx context.Context, logs io.Writer, out string, resume *coordinator.Resumption,
) (*backend, error) {
	logger, err := command.Logger(logs, l.LogLevel, command.Sentences)
	if err != nil {
		return nil, command.BadInput(err)
	}
	if err := l.Exactness.Realtime.Apply(logger); err != nil {
		return nil, command.BadInput(err)
	}
	packetTimes, err := l.Exactness.UsePacketTimes(func(line string) { fmt.Fprintln(logs, "Note: "+line+".") })
	if err != nil {
		return nil, command.BadInput(err)
	}
	c, err := l.coordinator(ctx, out, logger)
	if err != nil {
		return nil, err
	}
	if resume != nil {
		if _, err := c.Resume(*resume); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	host.CollectLess(25)
	cluster, err := local.Start(c, l.agentConfigs(packetTimes, logger), logger)
	if err != nil {
		return nil, err
	}
	endHosts, err := l.startHosts(ctx, c, cluster, logs)
	if err != nil {
		cluster.Close()
		return nil, err
	}
	b := &backend{conn: cluster.Conn(), minAgents: uint32(l.Agents.total())}
	end := func() { endHosts(); cluster.Close() }
	stop, err := l.serve(ctx, c, b, logger)
	if err != nil {
		end()
		return nil, command.BadInput(err)
	}
	b.close = func() { stop(); end() }
	return b, nil
}

// ShowHosts starts agents on the hosts of values of --on, shows what each can do, and ends them.
func ShowHosts(ctx context.Context, on []string, version string, out io.Writer) error {
	none := command.Exactness{Realtime: host.RealtimeOff, PacketTimes: host.RealtimeOff} // of this process
	l := localFlags{On: on, version: version, LogLevel: "warn", Exactness: none}
	if err := l.check(); err != nil {
		return command.BadInput(err)
	}
	b, err := l.embed(ctx, out, "", nil)
	if err == nil {
		b.close()
	}
	return err
}

// startHosts starts the agents of --on, until end is called.
func (l *localFlags) startHosts(
	ctx context.Context, c *coordinator.Coordinator, cluster *local.Cluster, logs io.Writer,
) (end func(), err error) {
	if len(l.hosts) == 0 {
		return func() {}, nil
	}
	hosts, listener, err := newRemoteHosts(l.hosts, l.version, logs)
	if err != nil {
		return nil, err
	}
	hosts.labels, hosts.asks, hosts.serve = l.labels, l.asks, c.ServeInvited
	hosts.probes = lists.Where(l.servers, plainWord.MatchString) // a shell means nothing by these
	cluster.Serve(listener)
	return hosts.close, command.UntilInterrupted(ctx, "starting the agents", func(ctx context.Context) error {
		err := hosts.start(ctx, cluster.Conn())
		if err != nil {
			hosts.close()
		}
		return err
	})
}

// status returns the server of /metrics.
func (l *localFlags) status() *command.Status { return &command.Status{Listen: l.Metrics} }

// serve starts what a run serves, until stop is called.
func (l *localFlags) serve(
	ctx context.Context, c *coordinator.Coordinator, b *backend, logger *slog.Logger,
) (stop func(), err error) {
	status := l.status()
	status.Results = sink.Gatherer(c.LatestRows)
	stopStatus, err := status.Serve(ctx, prometheus.NewRegistry(), func() error { return nil }, logger)
	if err != nil || l.Web.Listen == "" {
		return stopStatus, err
	}
	pages, err := l.Web.Start(ctx, c, certs.Files{}, logger)
	if err != nil {
		stopStatus()
		return nil, err
	}
	b.pages = pages.URL
	return func() { pages.Close(); stopStatus() }, nil
}

// coordinator makes the embedded coordinator.
func (l *localFlags) coordinator(
	ctx context.Context, out string, logger *slog.Logger,
) (*coordinator.Coordinator, error) {
	openSink, err := l.Sinks.Opener(ctx, logger)
	if err != nil {
		return nil, command.BadInput(err)
	}
	return coordinator.New(coordinator.Config{
		Name: "embedded", Version: l.version, Local: true, DataDir: "runs", RunDir: out,
		DatasetDir: command.DatasetDir(),
		Logger:     logger, OpenSink: openSink,
	})
}

// fits refuses a plan that waits for other agents than those that the flags start, and notes what these need of it: its
// labels, its load and its endpoints.
func (l *localFlags) fits(plan *plans.Plan) error {
	if len(l.hosts) > 0 && len(plan.Simulated()) > 0 {
		return errors.New("the plan's built-in simulator listens on this machine's loopback, which the hosts of --on do not " +
			"reach: start `spate simulate` where they do, and name its endpoints in the plan")
	}
	l.labels = maps.Clone(plan.Proto().GetAgents().GetLabels())
	delete(l.labels, naming.RegionLabel)
	for _, s := range plan.Outline() {
		l.asks = max(l.asks, s.GetLoad().GetConcurrency())
	}
	for _, t := range plan.Targets() {
		for _, endpoint := range t.GetEndpoints() {
			l.servers = words.AppendOnce(l.servers, naming.Server(naming.BaseURL(endpoint)))
		}
	}
	return l.Agents.fits(plan, len(l.hosts) > 0)
}

// agentConfigs returns the configurations of the embedded agents.
func (l *localFlags) agentConfigs(packetTimes bool, logger *slog.Logger) []agent.Config {
	if len(l.hosts) > 0 {
		return nil
	}
	return lists.Each(l.Agents.names(), func(who embeddedName) agent.Config {
		return agent.Config{
			Name: who.name, Region: who.region, Labels: l.labels, Version: l.version, Weight: 1, Logger: logger,
			DatasetDir: command.DatasetDir(), AgentsInProcess: l.fileShares(), SourceAddresses: l.Sources,
			PacketTimes: packetTimes,
		}
	})
}

// fileShares returns how many users share the process's open files: the embedded agents, and as many again for
// simulators, which hold the other end of each stream.
func (l *localFlags) fileShares() int {
	if l.simulates {
		return 2 * l.Agents.total()
	}
	return l.Agents.total()
}

// startSimulators serves the simulated targets, and the models that parts of mixtures name, on loopback until stop is
// called. It returns their addresses by target.
func startSimulators(
	ctx context.Context, targets []*spatev1.Target, adapters []string,
) (endpoints map[string][]string, stop func(), err error) {
	var servers []*simulator.Server
	stop = func() {
		for _, s := range servers {
			_ = s.Close(ctx) // its requests have ended with the run
		}
	}
	endpoints = map[string][]string{}
	for _, t := range targets {
		config := config.FromPlan(t.GetSimulator())
		config.ModelName, config.Adapters = t.GetModel(), adapters
		server, err := simulator.Start(config)
		if err != nil {
			stop()
			return nil, nil, fmt.Errorf("simulator of target %s: %w", t.GetName(), err)
		}
		servers = append(servers, server)
		endpoints[t.GetName()] = server.URLs()
	}
	return endpoints, stop, nil
}
