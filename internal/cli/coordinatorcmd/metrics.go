package coordinatorcmd

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/internal/cli/daemon"
)

// metrics returns what Prometheus can scrape from the coordinator.
func metrics(stats func() coordinator.Stats) daemon.Collector {
	counter := func(name, help string, value func(coordinator.Stats) uint64) daemon.Sample {
		return daemon.Counter("spate_coordinator_"+name, help, func() float64 { return float64(value(stats())) })
	}
	return daemon.Collector{
		{
			Desc: prometheus.NewDesc("spate_coordinator_agents", "Agents that are connected, by health.",
				[]string{"health"}, nil), Type: prometheus.GaugeValue,
			Values: func(add func(float64, ...string)) {
				agents := stats().Agents
				for _, health := range []string{"ready", "busy", "silent"} {
					add(float64(agents[health]), health)
				}
			},
		},
		daemon.Gauge("spate_coordinator_run_in_progress", "1 with a run in progress, else 0.", func() float64 {
			if stats().Run != "" {
				return 1
			}
			return 0
		}),
		counter("windows_total", "Windows that were merged and sent on.",
			func(s coordinator.Stats) uint64 { return s.Windows }),
		daemon.Gauge("spate_coordinator_window_delay_seconds", "Time from the end of the last of them until then.",
			func() float64 {
				return stats().WindowDelay.Seconds()
			}),
		daemon.Gauge("spate_coordinator_runs_waiting", "Runs that wait for others to end.",
			func() float64 { return float64(stats().Waiting) }),
		counter("runs_restarted_total", "Runs that were continued after a restart of this coordinator.",
			func(s coordinator.Stats) uint64 { return s.Restarts }),
		counter("leases_renewed_total", "Heartbeats of agents that were answered.",
			func(s coordinator.Stats) uint64 { return s.Renewals }),
		counter("snapshots_total", "Snapshots written to the ledger.",
			func(s coordinator.Stats) uint64 { return s.Snapshots }),
		counter("snapshots_duplicate_total", "Snapshots that were in the ledger already.",
			func(s coordinator.Stats) uint64 { return s.Duplicates }),
		counter("snapshots_refused_total", "Snapshots that were invalid, of another run, or too large.",
			func(s coordinator.Stats) uint64 { return s.Refused }),
		counter("snapshots_given_up_total",
			"Snapshots of agents whose load others had taken over, or that did not come in time.",
			func(s coordinator.Stats) uint64 { return s.Dropped }),
		counter("limited_total", "Connections, streams and messages beyond the limits.",
			func(s coordinator.Stats) uint64 { return s.Limited }),
		counter("connections_refused_total", "Connections without a certificate of the cluster.",
			func(s coordinator.Stats) uint64 { return s.ConnectionsRefused }),
		counter("calls_refused_total", "Calls that the caller's role does not allow.",
			func(s coordinator.Stats) uint64 { return s.CallsRefused }),
	}
}
