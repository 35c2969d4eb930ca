package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/spate-load/spate/agent"
	"github.com/spate-load/spate/agent/memory"
	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/cmd/internal/daemon"
	"github.com/spate-load/spate/cmd/internal/settings"
	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/internal/reason"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// backend is what a run runs on: a coordinator somewhere, or one embedded in this process with its agents. Both are spoken to
// through the same services, so that everything behind it is the same.
type backend struct {
	conn      *grpc.ClientConn
	address   string // empty: embedded
	minAgents uint32
	close     func()
}

// backend connects to the coordinator that was named, or starts the embedded one.
func (f *runFlags) backend(ctx context.Context, logs io.Writer) (*backend, error) {
	if f.coordinator == "" {
		return f.embed(ctx, logs)
	}
	conn, err := dial(f.coordinator, &f.tls)
	if err != nil {
		return nil, err
	}
	return &backend{conn: conn, address: f.coordinator, minAgents: f.minAgents, close: func() { _ = conn.Close() }}, nil
}

// dial connects to a coordinator's services. One that goes silent is noticed, so that nobody waits for it for ever.
func dial(address string, tls *settings.TLS) (*grpc.ClientConn, error) {
	if err := settings.CheckAddress(address); err != nil {
		return nil, badInputf("--coordinator %w", err)
	}
	creds, err := tls.Dial(certs.Client)
	if err != nil {
		return nil, badInputf("--tls-cert: %w", err)
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnecting, MinConnectTimeout: 5 * time.Second}))
	if err != nil {
		return nil, badInputf("--coordinator %q: %w", address, err)
	}
	return conn, nil
}

// reconnecting is how soon a connection that broke is tried again: a person waits for it.
var reconnecting = backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}

// unreachable says what to do about a coordinator that cannot be reached. Nothing has been started then.
func unreachable(address string, err error) error {
	if status.Code(err) == codes.PermissionDenied {
		return badInputf("the coordinator at %s refuses this: %s", address, status.Convert(err).Message())
	}
	return badInputf("the coordinator at %s cannot be reached: %s", address, reason.Of(err))
}

// neverConnected says whether a call failed before anything of it can have reached the coordinator, by gRPC's words.
func neverConnected(message string) bool {
	return strings.Contains(message, "Error while dialing: ") || strings.Contains(message, "name resolver error") || strings.Contains(message, "handshake failed")
}

// embed starts a coordinator and agents in this process, joined by an in-memory listener: no port is opened.
func (f *runFlags) embed(ctx context.Context, logs io.Writer) (*backend, error) {
	logger, err := settings.Logger(logs, f.logLevel, "text")
	if err != nil {
		return nil, badInput(err)
	}
	if err := f.realtime.Apply(logger); err != nil {
		return nil, badInput(err)
	}
	openSink, err := f.influx.Opener(ctx, logger)
	if err != nil {
		return nil, badInput(err)
	}
	c, err := coordinator.New(coordinator.Config{
		Name: "embedded", Version: daemon.Version(version), DataDir: "runs", DatasetDir: settings.DatasetDir(), RunDir: f.results.out, Logger: logger, OpenSink: openSink,
	})
	if err != nil {
		return nil, err
	}
	listener := bufconn.Listen(1 << 20)
	var serving, agents sync.WaitGroup
	serving.Go(func() {
		if err := c.Serve(listener); err != nil {
			logger.Error("embedded coordinator failed", "error", err)
		}
	})
	dialer := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) })
	agentsCtx, stopAgents := context.WithCancel(ctx)
	memory.CollectLess()
	for _, who := range f.agents.names() {
		a, err := agent.New(f.embeddedAgent(who, logger, dialer))
		if err != nil {
			stopAgents()
			return nil, errors.Join(err, c.Close())
		}
		agents.Go(func() {
			if err := a.Run(agentsCtx); err != nil && agentsCtx.Err() == nil {
				logger.Error("embedded agent failed", "error", err)
			}
		})
	}
	conn, err := grpc.NewClient("passthrough:///embedded", dialer, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		stopAgents()
		return nil, errors.Join(err, c.Close())
	}
	return &backend{conn: conn, minAgents: uint32(f.agents.total()), close: func() {
		_ = conn.Close()
		stopAgents()
		agents.Wait() // before the coordinator goes: they would miss it
		if err := c.Close(); err != nil {
			logger.Error("embedded coordinator did not close well", "error", err)
		}
		serving.Wait()
	}}, nil
}

// embeddedAgent is the configuration of an embedded agent.
func (f *runFlags) embeddedAgent(who embeddedName, logger *slog.Logger, dialer grpc.DialOption) agent.Config {
	return agent.Config{
		Name: who.name, Region: who.region, Version: daemon.Version(version), Weight: 1, Logger: logger, DatasetDir: settings.DatasetDir(),
		FileShares: f.fileShares(), SourceAddresses: f.sources,
		Coordinator: func(context.Context) (string, error) { return "passthrough:///embedded", nil },
		DialOptions: []grpc.DialOption{dialer, grpc.WithTransportCredentials(insecure.NewCredentials())},
	}
}

// fileShares is among how many the process's open files are shared: the embedded agents, and simulators, which hold the other end of each
// stream.
func (f *runFlags) fileShares() int {
	if f.simulates {
		return 2 * f.agents.total()
	}
	return f.agents.total()
}

// onThisMachine is an error if an agent of the run may not reach this machine's loopback.
func (b *backend) onThisMachine(ctx context.Context) error {
	if b.address == "" {
		return nil
	}
	here, err := os.Hostname()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	agents, err := spatev1.NewRunServiceClient(b.conn).ListAgents(ctx, &spatev1.ListAgentsRequest{})
	if err != nil {
		return unreachable(b.address, err)
	}
	for _, a := range agents.GetAgents() {
		if host := a.GetAgent().GetHost(); host != "" && host != here {
			return badInputf("the plan asks for the built-in simulator, which listens on this machine's loopback, but agent %s runs on %s: start `spate simulate` where all agents reach it and name its endpoints in the plan",
				a.GetAgent().GetName(), host)
		}
	}
	return nil
}
