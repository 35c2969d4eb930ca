package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/coordinator/allotment"
	"github.com/spate-load/spate/plans/endpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// An agent belongs to one run at most, from when the run takes it until the run ends, or no longer needs it. It stays
// with its run while it is disconnected. Only its run's machine hears of it.

// taken is an agent that belongs to a run.
type taken struct {
	run  *run
	info *spatev1.AgentInfo
}

// runOf returns the run that an agent belongs to, nil if there is none. c.mu is held.
func (c *Coordinator) runOf(agent string) *run { return c.taken[agent].run }

// feedAgent gives an event about an agent, which happens now, to the machine of its run. c.mu is held.
func (c *Coordinator) feedAgent(agent string, event func(r *run, at clock.Instant)) {
	if r := c.runOf(agent); r != nil {
		c.feed(r, event)
	}
}

// take makes a connected agent belong to a run. c.mu is held.
func (c *Coordinator) take(r *run, s *session, at clock.Instant) {
	name := s.info.GetName()
	c.taken[name] = taken{r, s.info}
	c.feedAt(r, at, func(r *run, at clock.Instant) {
		r.machine.Cordon(at, name, c.cordons.Of(name))
		r.machine.Connected(at, s.info, s.incarnation, nil, false)
		c.tellVersion(r, "agent "+name, s.info.GetVersion(), at)
	})
}

// free makes all agents of a run free, except those that keep has. c.mu is held.
func (c *Coordinator) free(r *run, keep map[string]bool) {
	maps.DeleteFunc(c.taken, func(name string, t taken) bool { return t.run == r && !keep[name] })
}

// allot gives free agents to the runs in progress that want them, and begins the waiting runs that can begin. c.mu is
// held.
func (c *Coordinator) allot(at clock.Instant) {
	if c.closed {
		return
	}
	c.allotted = at
	for _, r := range c.active {
		c.letGo(r, at)
	}
	for _, s := range c.freeAgents() {
		c.offer(s, at)
	}
	c.beginNext(at)
}

// offer gives a free agent to the first run in progress that wants it. If no run waits, that is all that a new agent
// changes: thousands may connect at once, and allot looks at all of them. c.mu is held.
func (c *Coordinator) offer(s *session, at clock.Instant) {
	if i := slices.IndexFunc(c.active, func(r *run) bool { return c.wants(r, s, at) }); i >= 0 {
		c.take(c.active[i], s, at)
	}
}

// allotRegularly is allot, unless that was done a moment ago. It blocks while the file with the access policy is read.
func (c *Coordinator) allotRegularly() {
	c.mu.Lock()
	now := clock.Now()
	due := now.Sub(c.allotted) >= allotInterval
	if due {
		c.allotted = now
	}
	c.mu.Unlock()
	if !due {
		return
	}
	c.usePolicy(c.cfg.Access.Policy())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allot(clock.Now())
}

// usePolicy sets the policy by which runs begin from now on.
func (c *Coordinator) usePolicy(p *access.Policy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.policy = p
}

// wants reports whether a run in progress would use one more agent. c.mu is held.
func (c *Coordinator) wants(r *run, s *session, at clock.Instant) (wants bool) {
	c.confined(r, func() { wants = r.isRebuilt() && r.machine.Wants(at, s.info) })
	return wants
}

// allotInterval is how often agents that runs no longer need are given to others.
const allotInterval = time.Second

// letGo frees the agents that a run does not need. What the run has decided so far must be durable first: if a
// restarted coordinator read an older state, two runs would have the same agent. c.mu is held.
func (c *Coordinator) letGo(r *run, at clock.Instant) {
	if r.freeing || len(c.unneeded(r, at)) == 0 {
		return
	}
	r.freeing = true
	c.later(r, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		r.freeing = false
		now := clock.Now()
		for _, name := range c.unneeded(r, now) {
			delete(c.taken, name)
			if s := c.sessions[name]; s != nil {
				c.feedAt(r, now, func(r *run, at clock.Instant) {
					r.machine.Disconnected(at, name, s.incarnation, "the run does not need it")
				})
			}
		}
		c.allot(now)
	})
}

// unneeded returns the agents that belong to a run and that the run does not need, by name. c.mu is held.
func (c *Coordinator) unneeded(r *run, at clock.Instant) (names []string) {
	if !c.inProgress(r) || !r.isRebuilt() {
		return nil
	}
	c.confined(r, func() {
		if r.machine.Ended() {
			return
		}
		needs := r.machine.Needs(at)
		for name, t := range c.taken {
			if t.run == r && !needs[name] {
				names = append(names, name)
			}
		}
	})
	return names
}

// freeAgents returns the sessions of the agents that belong to no run and may take one, by name. c.mu is held.
func (c *Coordinator) freeAgents() (out []*session) {
	for name, s := range c.sessions {
		if c.runOf(name) == nil && !c.barred(name) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *session) int { return strings.Compare(a.info.GetName(), b.info.GetName()) })
	return out
}

// barred reports whether an agent takes no new run. c.mu is held.
func (c *Coordinator) barred(name string) bool {
	s := c.sessions[name]
	return c.cordons.Of(name) != spatev1.Cordon_CORDON_UNSPECIFIED || s != nil && s.heartbeat.GetLeaving()
}

// allotmentAgents describes the agents for package allotment. c.mu is held.
func (c *Coordinator) allotmentAgents() (out []allotment.Agent) {
	for name, t := range c.taken {
		out = append(out, allotment.Agent{Info: t.info, Run: t.run.id, Barred: c.barred(name)})
	}
	for _, s := range c.freeAgents() {
		out = append(out, allotment.Agent{Info: s.info})
	}
	return out
}

// allotmentRun describes a run for package allotment.
func (r *run) allotmentRun() allotment.Run {
	out := allotment.Run{ID: r.id, Least: int(r.submission.GetMinAgents())}
	for i, st := range r.submission.GetPlan() {
		if i == 0 {
			out.First, out.Least = st, max(out.Least, int(st.GetAgents().GetCount()))
		}
		for _, address := range st.GetTarget().GetEndpoints() {
			if server := endpoint.Server(address); server != "" && !slices.Contains(out.Servers, server) {
				out.Servers = append(out.Servers, server)
			}
		}
	}
	return out
}

// allotmentRuns describes several runs for package allotment.
func allotmentRuns(runs []*run) (out []allotment.Run) {
	for _, r := range runs {
		out = append(out, r.allotmentRun())
	}
	return out
}

// others returns in words which connected agents do not belong to a run, and why. c.mu is held.
func (c *Coordinator) others(r *run) (out []string) {
	st := r.allotmentRun().First
	for _, name := range slices.Sorted(maps.Keys(c.sessions)) {
		switch other, why := c.runOf(name), allotment.Unfit(c.sessions[name].info, st); {
		case other == r:
		case why != "":
			out = append(out, name+": "+why)
		case other != nil:
			out = append(out, fmt.Sprintf("%s: run %s has it", name, other.id))
		case c.barred(name):
			out = append(out, name+": it is "+c.barredWord(name))
		}
	}
	return out
}

// barredWord returns why an agent takes no new run. c.mu is held.
func (c *Coordinator) barredWord(name string) string {
	switch c.cordons.Of(name) {
	case spatev1.Cordon_CORDON_DRAINED:
		return "drained"
	case spatev1.Cordon_CORDON_CORDONED:
		return "cordoned"
	}
	return "about to end"
}
