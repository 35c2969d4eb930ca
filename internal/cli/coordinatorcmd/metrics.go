package coordinatorcmd

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/internal/cli/command"
)

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
