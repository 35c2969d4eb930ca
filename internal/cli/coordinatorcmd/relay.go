package coordinatorcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/spate-load/spate/agent/yielding"
	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/coordinator/membership"
	"github.com/spate-load/spate/coordinator/relay"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/daemon"
	"github.com/spate-load/spate/internal/cli/settings"
)

// ofRelays are the flags that mean something with --relay.
var ofRelays = []string{
	"relay", "relay-merge", "name", "listen", "dataset-dir", "keep-datasets", "keep-datasets-for", "keep-datasets-size",
	"insecure-plaintext", "no-gossip", "gossip-listen", "gossip-advertise", "join", "cluster", "gossip-key", "wan",
	"tls-ca", "tls-cert", "tls-key", "http-listen", "pprof", "pprof-public", "log-level", "log-format", settings.Flag,
}

// runRelay serves as a relay until ctx ends.
func (f *flags) runRelay(ctx context.Context, logger *slog.Logger) error {
	if err := errors.Join(f.checkRelay(), f.tls.Check(logger), f.status.Check()); err != nil {
		return command.BadInput(err)
	}
	creds, err := f.tls.Dial(certs.Relay)
	if err != nil {
		return command.BadInput(err)
	}
	gossip, err := f.membership(logger)
	if err != nil {
		return command.BadInput(err)
	}
	r, err := relay.New(relay.Config{
		Name: f.name, TLS: f.tls.Files, Gossip: gossip, Logger: logger, PassOn: !f.relayMerge,
		DatasetDir: cmp.Or(f.datasetDir, settings.DatasetDir()), KeepDatasets: f.keepDatasets.Limits(),
		Coordinator: settings.InTurn(membership.Static(f.relay), func(string) error { return nil }), // checked above
		DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(creds)},
		BulkOptions: []grpc.DialOption{grpc.WithTransportCredentials(yielding.Credentials(creds))},
	})
	if err != nil {
		return command.BadInput(err)
	}
	stop, err := f.status.Serve(ctx, relayMetrics(r.Stats), func() error {
		if !r.Stats().Connected {
			return errors.New("not connected to a coordinator")
		}
		return nil
	}, logger)
	if err != nil {
		return errors.Join(err, r.Close())
	}
	defer stop()
	return r.Run(ctx, f.listen)
}

// checkRelay finds mistakes in the flags of a relay.
func (f *flags) checkRelay() error {
	errs := []error{f.checkServing(), f.keepDatasets.Check("datasets")}
	f.set.Visit(func(given *pflag.Flag) {
		if !slices.Contains(ofRelays, given.Name) {
			errs = append(errs, fmt.Errorf("--%s means nothing with --relay: give it to the coordinator", given.Name))
		}
	})
	for _, address := range f.relay {
		if err := settings.CheckAddress(address); err != nil {
			errs = append(errs, fmt.Errorf("--relay %w", err))
		} else {
			errs = append(errs, f.tls.CheckPlain(address, f.plaintext))
		}
	}
	if info, err := os.Stat(f.datasetDir); err == nil && !info.IsDir() {
		errs = append(errs, fmt.Errorf("--dataset-dir %s: is a file: name a directory", f.datasetDir))
	}
	return errors.Join(errs...)
}

// relayMetrics returns what Prometheus can scrape from a relay. Times are in seconds.
func relayMetrics(stats func() relay.Stats) daemon.Collector {
	return daemon.Collector{
		daemon.Gauge("spate_relay_connected", "1 with a connection to a coordinator, else 0.", func() float64 {
			if stats().Connected {
				return 1
			}
			return 0
		}),
		daemon.Counter("spate_relay_connections_total", "Connections to a coordinator.",
			func() float64 { return float64(stats().Links) }),
		daemon.Gauge("spate_relay_agents", "Agents that are connected through this relay.",
			func() float64 { return float64(stats().Agents) }),
		daemon.Counter("spate_relay_snapshots_total", "Snapshots that the coordinator acked or refused.",
			func() float64 { return float64(stats().Snapshots) }),
		{
			Desc: prometheus.NewDesc("spate_relay_clock_uncertainty_seconds",
				"How wrong the estimate of the coordinator's clock may be.", nil, nil), Type: prometheus.GaugeValue,
			Values: func(add func(float64, ...string)) {
				if u := stats().ClockUncertainty; u != nil {
					add(u.Seconds())
				}
			},
		},
	}
}
