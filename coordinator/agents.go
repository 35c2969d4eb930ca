package coordinator

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/membership"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
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

// ListAgents lists the agents that have a control stream and the agents that only gossip has found.
func (s runService) ListAgents(context.Context, *spatev1.ListAgentsRequest) (*spatev1.ListAgentsResponse, error) {
	s.c.mu.Lock()
	cluster := s.c.cluster
	out := s.c.connected(clock.Now())
	s.c.mu.Unlock()
	if cluster != nil {
		out = append(out, found(cluster.Members(), out)...)
	}
	slices.SortFunc(out, func(a, b *spatev1.AgentStatus) int {
		return strings.Compare(a.GetAgent().GetName(), b.GetAgent().GetName())
	})
	return &spatev1.ListAgentsResponse{Agents: out}, nil
}

// connected describes the agents that have a session. c.mu is held.
func (c *Coordinator) connected(now clock.Instant) []*spatev1.AgentStatus {
	var out []*spatev1.AgentStatus
	for name, s := range c.sessions {
		silent := now.Sub(s.heard)
		out = append(out, &spatev1.AgentStatus{
			Agent: proto.CloneOf(s.info), Health: c.health(name, silent), Heartbeat: proto.CloneOf(s.heartbeat),
			SilentFor: durationOf(silent), Address: s.address,
		})
	}
	return out
}

// health returns the health of an agent that was last heard this long ago. c.mu is held.
func (c *Coordinator) health(name string, silent time.Duration) spatev1.AgentHealth {
	switch {
	case silent > 2*c.cfg.HeartbeatInterval:
		return spatev1.AgentHealth_AGENT_HEALTH_SILENT
	case c.active != nil && c.active.machine.Busy(name):
		return spatev1.AgentHealth_AGENT_HEALTH_BUSY
	}
	return spatev1.AgentHealth_AGENT_HEALTH_READY
}

// found describes the members that are agents and have no session.
func found(members []membership.Member, connected []*spatev1.AgentStatus) []*spatev1.AgentStatus {
	known := map[string]bool{}
	for _, s := range connected {
		known[s.GetAgent().GetName()] = true
	}
	var out []*spatev1.AgentStatus
	for _, m := range members {
		if m.Role == membership.RoleAgent && !known[m.Process] {
			known[m.Process] = true
			out = append(out, &spatev1.AgentStatus{
				Agent:   &spatev1.AgentInfo{Name: m.Process, Region: m.Region},
				Health:  spatev1.AgentHealth_AGENT_HEALTH_FOUND,
				Address: m.Gossip,
			})
		}
	}
	return out
}
