package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/cmd/internal/daemon"
	"github.com/spate-load/spate/cmd/internal/settings"
	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/coordinator/membership"
)

// flags are the settings of the daemon.
type flags struct {
	name, listen, dataDir string
	plaintext, noGossip   bool
	gossip                settings.Gossip
	influx                settings.Influx
}

func newCommand(version string) *cobra.Command {
	f := &flags{}
	cmd := daemon.New(daemon.Description{
		Name: "spate-coordinator", Version: version,
		Short: "Coordinator of Spate: splits plans over agents and merges what they measure",
		Long: `The coordinator waits for agents, splits the plans that "spate run --coordinator" submits over them, and merges what they measure. Agents
find it by gossip (--join the address that it logs) or are given its --listen address.`,
		Example: `  spate-coordinator
  spate-coordinator --listen 10.0.0.1:7700 --gossip-listen 10.0.0.1:7946 --gossip-key file:gossip.key --insecure-plaintext`,
	}, f.run)
	host, _ := os.Hostname()
	fs := cmd.Flags()
	fs.StringVar(&f.name, "name", host, "name of this coordinator in gossip and logs")
	fs.StringVar(&f.listen, "listen", "127.0.0.1:7700", "`IP:PORT` of the control, metrics and run services")
	fs.StringVar(&f.dataDir, "data-dir", "runs", "`directory` that the ledgers of runs are kept in")
	fs.BoolVar(&f.plaintext, "insecure-plaintext", false, "serve beyond loopback without encryption or authentication: only on a network you trust")
	fs.BoolVar(&f.noGossip, "no-gossip", false, "take no part in gossip: agents are given --listen's address")
	f.gossip.AddFlags(fs, "127.0.0.1:7946")
	f.influx.AddFlags(fs)
	return cmd
}

// run serves until ctx ends.
func (f *flags) run(ctx context.Context, version string, logger *slog.Logger) error {
	if err := f.influx.Validate(); err != nil {
		return daemon.BadInput(err)
	}
	openSinks, err := f.influx.Opener(ctx, logger)
	if err != nil {
		return daemon.BadInput(err)
	}
	c, err := coordinator.New(coordinator.Config{
		Name: f.name, Version: version, DataDir: f.dataDir, InsecurePlaintext: f.plaintext, Logger: logger, OpenSink: openSinks,
	})
	if err != nil {
		return daemon.BadInput(err)
	}
	if err := c.CheckAddress(f.listen); err != nil {
		return daemon.BadInput(err)
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", f.listen, err)
	}
	if !f.noGossip {
		cluster, err := f.join(listener, logger)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		defer cluster.Close()
		c.UseMembers(cluster)
	}
	logger.Info("coordinator is ready", "listen", listener.Addr().String(), "data", f.dataDir)
	return daemon.Serve(ctx, func() error { return c.Serve(listener) }, c.Close)
}

// join takes part in gossip.
func (f *flags) join(listener net.Listener, logger *slog.Logger) (*membership.Cluster, error) {
	port := listener.Addr().(*net.TCPAddr).Port
	config, err := f.gossip.Config(f.name, membership.Meta{Role: membership.RoleCoordinator, GRPCPort: uint16(port)}, f.plaintext, logger)
	if err != nil {
		return nil, daemon.BadInput(err)
	}
	cluster, err := membership.Join(config)
	if err != nil {
		return nil, err
	}
	logger.Info("gossip is ready", "address", cluster.Address(), "hint", "agents: spate-agent --join "+cluster.Address())
	return cluster, nil
}
