package coordinator

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/membership"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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

// statuses describes the agents that have a session.
func (c *Coordinator) statuses() []*spatev1.AgentStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connected(clock.Now())
}

// health returns the health of an agent that was last heard this long ago. c.mu is held.
func (c *Coordinator) health(name string, silent time.Duration) spatev1.AgentHealth {
	switch {
	case silent > 2*c.cfg.HeartbeatInterval:
		return spatev1.AgentHealth_AGENT_HEALTH_SILENT
	case c.sessions[name].heartbeat.GetLeaving():
		return spatev1.AgentHealth_AGENT_HEALTH_LEAVING
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
