package runcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/spate-load/spate/agent"
	"github.com/spate-load/spate/agent/memory"
	"github.com/spate-load/spate/agent/realtime"
	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/settings"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/simulator"
	"github.com/spate-load/spate/simulator/config"
)

// local runs a coordinator and agents in this process.
type local struct {
	version   string
	agents    embedded
	sources   []string
	logLevel  string
	sinks     settings.Sinks
	realtime  realtime.Policy
	simulates bool // simulators also run in this process
}

func newLocal(version string) local {
	return local{version: version, agents: defaultAgents(), realtime: realtime.Auto}
}

func (l *local) addAgents(flags *pflag.FlagSet) {
	flags.Var(&l.agents, "agents", "`number` of embedded agents, or numbers by region such as eu=2,us=1")
	flags.StringSliceVar(
		&l.sources,
		"source-address",
		nil,
		"`addresses` of this machine that embedded agents connect from, in turn: each adds a range of local ports (default: what the system picks)",
	)
	flags.Var(&l.realtime, "realtime", realtime.Usage)
}

func (l *local) addLogLevel(flags *pflag.FlagSet) {
	flags.StringVar(&l.logLevel, "log-level", "warn",
		"what the embedded coordinator and agents log to standard error: debug, info, warn or error")
}

// check finds mistakes in the flags.
func (l *local) check() error {
	_, err := settings.Logger(io.Discard, l.logLevel, "text")
	return errors.Join(l.agents.check(), err, l.sinks.Validate())
}

// embed starts a coordinator and agents in this process, connected by an in-memory listener: no port is opened. out is
// the run directory. Empty: runs/RUN-ID. If resume is given, the interrupted run in that directory is resumed.
func (l *local) embed(
	ctx context.Context, logs io.Writer, out string, resume *coordinator.Resumption,
) (*backend, error) {
	logger, err := settings.Logger(logs, l.logLevel, "text")
	if err != nil {
		return nil, command.BadInput(err)
	}
	if err := l.realtime.Apply(logger); err != nil {
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
	return l.join(ctx, c, logger)
}

// coordinator makes the embedded coordinator.
func (l *local) coordinator(ctx context.Context, out string, logger *slog.Logger) (*coordinator.Coordinator, error) {
	openSink, err := l.sinks.Opener(ctx, logger)
	if err != nil {
		return nil, command.BadInput(err)
	}
	return coordinator.New(coordinator.Config{
		Name: "embedded", Version: l.version, Local: true, DataDir: "runs", RunDir: out,
		DatasetDir: settings.DatasetDir(),
		Logger:     logger, OpenSink: openSink,
	})
}

// join serves the coordinator, and makes agents join it.
func (l *local) join(ctx context.Context, c *coordinator.Coordinator, logger *slog.Logger) (*backend, error) {
	listener := bufconn.Listen(1 << 20)
	var serving, agents sync.WaitGroup
	serving.Go(func() {
		if err := c.Serve(listener); err != nil {
			logger.Error("embedded coordinator failed", "error", err)
		}
	})
	dialer := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn,
		error) {
		return listener.DialContext(ctx)
	})
	ctx, stopAgents := context.WithCancel(ctx)
	conn, err := grpc.NewClient("passthrough:///embedded", dialer,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		err = l.startAgents(ctx, &agents, logger, dialer)
	}
	if err != nil {
		stopAgents()
		agents.Wait()
		return nil, errors.Join(err, c.Close())
	}
	return &backend{conn: conn, minAgents: uint32(l.agents.total()), close: func() {
		_ = conn.Close()
		stopAgents()
		agents.Wait() // before the coordinator stops: they need it
		if err := c.Close(); err != nil {
			logger.Error("embedded coordinator did not close well", "error", err)
		}
		serving.Wait()
	}}, nil
}

// startAgents starts the embedded agents, which run until ctx ends.
func (l *local) startAgents(
	ctx context.Context, running *sync.WaitGroup, logger *slog.Logger, dialer grpc.DialOption,
) error {
	memory.CollectLess()
	for _, who := range l.agents.names() {
		a, err := agent.New(l.embeddedAgent(who, logger, dialer))
		if err != nil {
			return err
		}
		running.Go(func() {
			if err := a.Run(ctx); err != nil && ctx.Err() == nil {
				logger.Error("embedded agent failed", "error", err)
			}
		})
	}
	return nil
}

// embeddedAgent returns the configuration of an embedded agent.
func (l *local) embeddedAgent(who embeddedName, logger *slog.Logger, dialer grpc.DialOption) agent.Config {
	return agent.Config{
		Name: who.name, Region: who.region, Version: l.version, Weight: 1, Logger: logger,
		DatasetDir:      settings.DatasetDir(),
		AgentsInProcess: l.fileShares(), SourceAddresses: l.sources,
		Coordinator: func(context.Context) (string, error) { return "passthrough:///embedded", nil },
		DialOptions: []grpc.DialOption{dialer, grpc.WithTransportCredentials(insecure.NewCredentials())},
	}
}

// fileShares returns how many users share the process's open files: the embedded agents, and as many again for
// simulators, which hold the other end of each stream.
func (l *local) fileShares() int {
	if l.simulates {
		return 2 * l.agents.total()
	}
	return l.agents.total()
}

// startSimulators serves the simulated targets on loopback until stop is called. It returns their addresses by target.
func startSimulators(
	ctx context.Context, targets []*spatev1.Target,
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
		config.ModelName = t.GetModel()
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
