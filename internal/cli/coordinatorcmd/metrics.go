package coordinatorcmd

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/internal/cli/command"
)

// metrics is what Prometheus can scrape from the coordinator. Each scrape reads the state once, because that takes time
// with many agents.
type metrics func() coordinator.Stats

// Describe sends the descriptions of the metrics.
func (read metrics) Describe(out chan<- *prometheus.Desc) {
	metricsOf(coordinator.Stats{}).Describe(out)
}

// Collect reads and sends the values.
func (read metrics) Collect(out chan<- prometheus.Metric) { metricsOf(read()).Collect(out) }

// metricsOf returns the metrics of a state.
func metricsOf(s coordinator.Stats) command.Collector {
	gauge := func(name, help string, value float64) command.Sample {
		return command.Gauge("spate_coordinator_"+name, help, func() float64 { return value })
	}
	counter := func(name, help string, value uint64) command.Sample {
		return command.Counter("spate_coordinator_"+name, help, func() float64 { return float64(value) })
	}
	return command.Collector{
		{
			Desc: prometheus.NewDesc("spate_coordinator_agents", "Agents that are connected, by health.",
				[]string{"health"}, nil), Type: prometheus.GaugeValue,
			Values: func(add func(float64, ...string)) {
				for _, health := range []string{"ready", "busy", "silent"} {
					add(float64(s.Agents[health]), health)
				}
			},
		},
		gauge("agents_cordoned", "Agents that take no new runs.", float64(s.Cordoned)),
		gauge("runs_in_progress", "Runs in progress.", float64(len(s.Runs))),
		counter("windows_total", "Windows that were merged and sent on.", s.Windows),
		gauge("window_delay_seconds", "Time from the end of the last of them until then.", s.WindowDelay.Seconds()),
		gauge("runs_waiting", "Runs that wait for others to end.", float64(s.Waiting)),
		counter("runs_restarted_total", "Runs that were continued after a restart of this coordinator.", s.Restarts),
		counter("leases_renewed_total", "Heartbeats of agents that were answered.", s.Renewals),
		counter("snapshots_total", "Snapshots written to the ledger.", s.Snapshots),
		counter("snapshots_duplicate_total", "Snapshots that were in the ledger already.", s.Duplicates),
		counter("snapshots_refused_total", "Snapshots that were invalid, of another run, or too large.", s.Refused),
		counter("snapshots_given_up_total",
			"Snapshots of agents whose load others had taken over, or that did not come in time.", s.Dropped),
		counter("limited_total", "Connections, streams and messages beyond the limits.", s.Limited),
		counter("connections_refused_total", "Connections without a certificate of the cluster.",
			s.ConnectionsRefused),
		counter("calls_refused_total", "Calls that the caller's role does not allow.", s.CallsRefused),
	}
}
