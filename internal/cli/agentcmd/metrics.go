package agentcmd

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-load/spate/agent"
	"github.com/spate-load/spate/internal/cli/command"
)

// metrics returns what Prometheus can scrape from the agent. Times are in seconds.
func metrics(stats func() agent.Stats) command.Collector {
	gauge := func(name, help string, value func(agent.Stats) float64) command.Sample {
		return command.Gauge("spate_agent_"+name, help, func() float64 { return value(stats()) })
	}
	known := func(name, help string, value func(agent.Stats) float64) command.Sample {
		return command.Sample{
			Desc: prometheus.NewDesc("spate_agent_"+name, help, nil, nil), Type: prometheus.GaugeValue,
			Values: func(add func(float64, ...string)) {
				if s := stats(); s.ClockKnown {
					add(value(s))
				}
			},
		}
	}
	return command.Collector{
		gauge("connected", "1 with a session with the coordinator, else 0.",
			func(s agent.Stats) float64 { return oneIf(s.Connected) }),
		command.Counter("spate_agent_sessions_total", "Sessions with a coordinator.",
			func() float64 { return float64(stats().Sessions) }),
		gauge("assigned", "1 with an assignment, else 0.", func(s agent.Stats) float64 { return oneIf(s.Assigned) }),
		gauge("requests_in_flight", "Requests in flight.", func(s agent.Stats) float64 { return float64(s.InFlight) }),
		gauge("snapshots_unacked", "Snapshots that the coordinator has not acked.",
			func(s agent.Stats) float64 { return float64(s.Unacked) }),
		gauge("snapshots_unacked_bytes", "Size of these snapshots.",
			func(s agent.Stats) float64 { return float64(s.UnackedBytes) }),
		command.Counter("spate_agent_snapshots_merged_total",
			"Snapshots that were merged because too many waited for the coordinator.",
			func() float64 { return float64(stats().Merges) }),
		command.Counter("spate_agent_rows_dropped_total", "Request rows that were dropped then.",
			func() float64 { return float64(stats().DroppedRows) }),
		known("clock_offset_seconds", "What to add to this machine's monotonic clock to get the coordinator's.",
			func(s agent.Stats) float64 { return s.ClockOffset.Seconds() }),
		known("clock_uncertainty_seconds", "How wrong the offset may be.",
			func(s agent.Stats) float64 { return s.ClockUncertainty.Seconds() }),
	}
}

// healthy returns a function that returns an error if the agent cannot get work.
func healthy(stats func() agent.Stats) func() error {
	return func() error {
		if !stats().Connected {
			return errors.New("not connected to a coordinator")
		}
		return nil
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
