package lifecycle

import (
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// agent is one agent as the run sees it.
type agent struct {
	info        *spatev1.AgentInfo
	incarnation uint64
	lost        string        // why it is not connected; empty: it is
	heard       clock.Instant // last sign of life
	absent      bool          // it has not come back since the coordinator was started anew
	inFlight    uint32        // by its last heartbeat
}

// Connected says that an agent's control stream stands: a new agent, or one that comes back. A run that waits for agents looks at
// the next tick who is there, so that it takes all that are there when it begins, and not only as many as it needs. resume is what the
// agent works on, nil if it has nothing to do; armed says that it has been given the start.
func (r *Run) Connected(at clock.Instant, info *spatev1.AgentInfo, incarnation uint64, resume *spatev1.AssignmentRef, armed bool) {
	name := info.GetName()
	a := r.agents[name]
	if a == nil {
		a = &agent{}
		r.agents[name] = a
		r.welcome(at, name)
	} else if a.incarnation != incarnation {
		r.Lost(at, name, a.incarnation, "its process was started anew")
	}
	if slices.Contains(r.roster, a) {
		r.unsaved = true
	}
	*a = agent{info: info, incarnation: incarnation, heard: at}
	r.catchUp(name, resume, armed)
}

// welcome says what becomes of an agent that was not known.
func (r *Run) welcome(at clock.Instant, name string) {
	if r.phase != gathering {
		r.notice(at, spatev1.Severity_SEVERITY_INFO, "agent %s came during the run and takes no part in it", name)
	}
}

// Lost says that an agent's control stream is broken. If the agent owes something to the stage in progress, the run fails.
func (r *Run) Lost(at clock.Instant, name string, incarnation uint64, reason string) {
	a := r.agents[name]
	if a == nil || a.incarnation != incarnation || a.lost != "" {
		return
	}
	a.lost = reason
	if !slices.Contains(r.roster, a) {
		delete(r.agents, name)
		return
	}
	if r.phase == pausing {
		r.notice(at, spatev1.Severity_SEVERITY_WARNING, "agent %s lost in the pause: %s; the run ends unless it is back when the pause is over", name, reason)
	}
	if r.stage == nil || r.phase == closing {
		return // the next stage finds it missing, unless it comes back
	}
	s := r.stage.share(name)
	if s.done() {
		return
	}
	s.failure = "lost: " + reason
	r.failRun(at, "agent "+name+" lost: "+reason)
}

// Heard is a heartbeat of an agent over its standing control stream. One that was only silent is back; a share that was given up
// stays so.
func (r *Run) Heard(at clock.Instant, name string, h *spatev1.Heartbeat) {
	if a := r.agents[name]; a != nil {
		a.heard, a.inFlight, a.lost = at, h.GetInFlight(), ""
	}
}

// loseSilent gives up the agents of the roster that have said nothing for too long.
func (r *Run) loseSilent(at clock.Instant) {
	for _, a := range r.roster {
		if silent := at.Sub(a.heard); a.lost == "" && silent >= r.patienceWith(a) {
			r.Lost(at, a.info.GetName(), a.incarnation, silence(a, silent))
		}
	}
}

// patienceWith is how long an agent may be silent. One that was there when the coordinator's process ended goes on for its lease, and may
// take as long to come back.
func (r *Run) patienceWith(a *agent) time.Duration {
	switch {
	case !a.absent:
		return r.cfg.Silence
	case r.stage != nil && r.stage.record.GetStage().GetOnAgentLoss() == "reassign":
		return r.cfg.ReassignLease
	}
	return r.cfg.Lease
}

// silence says for people what is missing of an agent.
func silence(a *agent, silent time.Duration) string {
	if a.absent {
		return "it did not come back within " + silent.String() + " of the coordinator's new start"
	}
	return "no heartbeat for " + silent.String()
}

// gather begins the first stage as soon as enough agents are there, or gives up.
func (r *Run) gather(at clock.Instant) {
	ready := r.ready(at)
	switch {
	case len(ready) >= r.cfg.MinAgents:
		r.roster = ready
		r.emit(at, &spatev1.RunEvent{Event: &spatev1.RunEvent_RunBegan{RunBegan: &spatev1.RunBegan{
			Agents: infos(ready), Stages: mostStages(r.plan),
		}}})
		r.nextStage(at)
	case at.Sub(r.begin) >= r.cfg.AgentsTimeout:
		r.fatal = waitedInVain(ready, r.cfg)
		r.incomplete = true
		r.finish(at)
	case at.Sub(r.begin) >= quietWait && r.awaited != len(ready)+1:
		r.awaited = len(ready) + 1
		r.notice(at, spatev1.Severity_SEVERITY_INFO, "waiting for agents, up to %v: %d of %d are there", r.cfg.AgentsTimeout, len(ready), r.cfg.MinAgents)
	}
}

// quietWait is how long agents are waited for without a word.
const quietWait = 2 * time.Second

// ready returns the agents that can take part, by name: the order of the weights in every stripe.
func (r *Run) ready(at clock.Instant) []*agent {
	var out []*agent
	for _, a := range r.agents {
		if a.lost == "" && at.Sub(a.heard) < r.cfg.Silence {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *agent) int { return strings.Compare(a.info.GetName(), b.info.GetName()) })
	return out
}

func infos(agents []*agent) []*spatev1.AgentInfo {
	out := make([]*spatev1.AgentInfo, len(agents))
	for i, a := range agents {
		out[i] = clone(a.info)
	}
	return out
}
