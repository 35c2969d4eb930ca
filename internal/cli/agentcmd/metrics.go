package agentcmd

import (
	"errors"

	"github.com/spate-load/spate/agent"
	"github.com/spate-load/spate/internal/cli/command"
)

// metrics returns what Prometheus can scrape from the agent. Times are in seconds.
func metrics(stats func() agent.Stats) command.Collector {
	return func(gauge, counter command.Add) {
		s := stats()
		gauge("spate_agent_connected", "1 with a session with the coordinator, else 0.", oneIf(s.Connected), nil)
		counter("spate_agent_sessions_total", "Sessions with a coordinator.", float64(s.Sessions), nil)
		gauge("spate_agent_assigned", "1 with an assignment, else 0.", oneIf(s.Assigned), nil)
		gauge("spate_agent_requests_in_flight", "Requests in flight.", float64(s.InFlight), nil)
		gauge("spate_agent_snapshots_unacked", "Snapshots that the coordinator has not acked.", float64(s.Unacked), nil)
		gauge("spate_agent_snapshots_unacked_bytes", "Size of these snapshots.", float64(s.UnackedBytes), nil)
		counter("spate_agent_snapshots_merged_total",
			"Snapshots that were merged because too many waited for the coordinator.", float64(s.Merges), nil)
		counter("spate_agent_rows_dropped_total", "Request rows that were dropped then.", float64(s.DroppedRows), nil)
		if s.ClockKnown {
			gauge("spate_agent_clock_offset_seconds",
				"What to add to this machine's monotonic clock to get the coordinator's.", s.ClockOffset.Seconds(), nil)
			gauge("spate_agent_clock_uncertainty_seconds", "How wrong the offset may be.", s.ClockUncertainty.Seconds(), nil)
		}
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
