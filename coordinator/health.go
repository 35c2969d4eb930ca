package coordinator

import (
	"cmp"
	"slices"
	"time"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/clock"
)

// maxHealth bounds the agents whose health is written: each agent is a series in the database.
const maxHealth = 1000

// health writes the health of the connected agents to the run's sink, once per heartbeat interval. Only the run's
// worker uses it.
type health struct {
	c    *Coordinator
	run  *run
	next time.Time         // time of the next points
	told map[string]uint64 // number of the last heartbeat written, by agent
	said bool              // it was logged that there are too many agents
}

// show writes the points of one interval. An agent without a new heartbeat gets a point that has only its silence.
func (h *health) show() {
	now := time.Now()
	if h.run.sink == sink.Discard || now.Before(h.next) {
		return
	}
	h.next = now.Add(h.c.cfg.HeartbeatInterval)
	for _, p := range h.points(now) {
		h.run.sink.Put(p)
	}
}

// points returns a point for each connected agent, sorted by name.
func (h *health) points(now time.Time) (out []sink.AgentPoint) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	instant, told := clock.Now(), map[string]uint64{}
	for name, s := range h.c.sessions {
		silent := instant.Sub(s.heard)
		seconds := silent.Seconds()
		p := sink.AgentPoint{
			RunID: h.run.id, Plan: h.run.plan(), Agent: name, Region: s.info.GetRegion(), Time: now,
			SilentSeconds: &seconds,
		}
		if b := s.heartbeat; b != nil {
			if told[name] = b.GetNumber(); told[name] != h.told[name] {
				p.Heartbeat, p.Time = b, now.Add(-silent)
			}
		}
		out = append(out, p)
	}
	h.told = told
	return h.bound(out)
}

// bound keeps the first maxHealth agents by name, and logs once that there are more.
func (h *health) bound(all []sink.AgentPoint) []sink.AgentPoint {
	slices.SortFunc(all, func(a, b sink.AgentPoint) int { return cmp.Compare(a.Agent, b.Agent) })
	if len(all) <= maxHealth {
		return all
	}
	if !h.said {
		h.c.log.Warn("too many agents: health is written only of the first by name", "run", h.run.id,
			"agents", len(all), "written", maxHealth)
		h.said = true
	}
	return all[:maxHealth]
}
