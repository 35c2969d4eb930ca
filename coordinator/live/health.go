package live

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/sink"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// maxHealth bounds the agents whose health is written: each agent is a series in the database.
const maxHealth = 1000

// Health writes the health of the connected agents to a run's sink. One goroutine uses it.
type Health struct {
	// Run is the run's identity.
	Run points.Run
	// Sink takes the points.
	Sink sink.Sink
	// Interval is the time between points of one agent.
	Interval time.Duration
	// Agents returns the connected agents.
	Agents func() []*spatev1.AgentStatus
	// Log receives log messages.
	Log *slog.Logger

	next time.Time         // time of the next points
	told map[string]uint64 // number of the last heartbeat written, by agent
	said bool              // it was logged that there are too many agents
}

// Show writes the points of one interval, if the interval has passed. An agent without a new heartbeat gets a point
// that has only its silence.
func (h *Health) Show(now time.Time) {
	if h.Sink == sink.Discard || now.Before(h.next) {
		return
	}
	h.next = now.Add(h.Interval)
	for _, p := range h.bound(h.points(now)) {
		h.Sink.Put(p)
	}
}

// points returns a point for each connected agent.
func (h *Health) points(now time.Time) (out []sink.AgentPoint) {
	told := map[string]uint64{}
	for _, a := range h.Agents() {
		name, silent := a.GetAgent().GetName(), a.GetSilentFor().AsDuration()
		seconds := silent.Seconds()
		p := sink.AgentPoint{
			RunID: h.Run.ID, Plan: h.Run.Plan, Agent: name, Region: a.GetAgent().GetRegion(), Time: now,
			SilentSeconds: &seconds,
		}
		if b := a.GetHeartbeat(); b != nil {
			if told[name] = b.GetNumber(); told[name] != h.told[name] {
				p.Heartbeat, p.Time = b, now.Add(-silent)
			}
		}
		out = append(out, p)
	}
	h.told = told
	return out
}

// bound sorts the agents by name and keeps the first maxHealth. It logs once that there are more.
func (h *Health) bound(all []sink.AgentPoint) []sink.AgentPoint {
	slices.SortFunc(all, func(a, b sink.AgentPoint) int { return cmp.Compare(a.Agent, b.Agent) })
	if len(all) <= maxHealth {
		return all
	}
	if !h.said {
		h.Log.Warn("too many agents: health is written only of the first by name", "run", h.Run.ID,
			"agents", len(all), "written", maxHealth)
		h.said = true
	}
	return all[:maxHealth]
}
