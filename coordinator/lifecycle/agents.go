package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// agent is one process of an agent, as the run sees it.
type agent struct {
	info         *spatev1.AgentInfo
	incarnation  uint64
	disconnected string        // why its control stream is broken; empty: it is connected
	lost         string        // why the agent is lost; empty: it is not
	replaced     bool          // another process has its name, so it cannot come back
	heard        clock.Instant // last message over its control stream
	notBack      bool          // it has not come back since the coordinator restarted
	inFlight     uint32        // by its last heartbeat
	leaving      bool          // it was asked to end, or is drained: it takes nothing on
	ending       bool          // its process was asked to end
	returns      bool          // it is drained no more, and takes part from the next stage on
}

func (a *agent) name() string { return a.info.GetName() }

// Connected tells the machine that an agent's control stream is open: of a new agent, or of one that comes back. resume
// names the assignment that the agent works on, nil if it has none. armed reports whether this assignment is armed or
// in progress. A run that waits for agents checks at the next tick, so that it begins with all agents that are ready
// and not only with as many as it needs.
func (r *Run) Connected(
	at clock.Instant, info *spatev1.AgentInfo, incarnation uint64, resume *spatev1.AssignmentRef, armed bool,
) {
	if r.Ended() {
		return
	}
	old := r.agents[info.GetName()]
	a := old
	if old == nil || old.incarnation != incarnation {
		a = &agent{incarnation: incarnation}
		r.agents[info.GetName()] = a
	}
	a.info, a.heard, a.disconnected, a.notBack = info, at, "", false
	switch {
	case old == nil:
		r.welcome(at, a)
	case old != a:
		r.supersede(at, old)
	default:
		r.returned(at, a)
	}
	r.resendMissed(at, a, resume, armed)
}

// supersede loses a process whose name another process has taken. The process may have been lost before.
func (r *Run) supersede(at clock.Instant, old *agent) {
	const reason = "its process was restarted"
	old.replaced = true
	r.lose(at, old, reason)
	p := r.assignmentOf(old)
	if p != nil && p.isLost() && !p.toldToEnd && (r.phase == running || r.phase == stopping) && r.replaceable(p) {
		r.replace(at, p, reason)
	}
}

// maxGreeted bounds the agents whose arrival during a run is told.
const maxGreeted = 256

// welcome tells followers what a new agent will do.
func (r *Run) welcome(at clock.Instant, a *agent) {
	switch {
	case r.greeted[a.name()] || len(r.greeted) == maxGreeted: // comes and goes: followers know
	case r.phase == gathering || r.stage != nil && r.mayJoin(r.stage.record.GetStage()):
	case r.excluded(a, r.first()) != "":
		r.greeted[a.name()] = true
		r.notice(at, spatev1.Severity_SEVERITY_INFO, "agent %s connected during the run and takes no part: %s", a.name(),
			r.excluded(a, r.first()))
	case len(r.roster) >= int(r.first().GetAgents().GetCount()) && r.first().GetAgents().GetCount() > 0:
		r.greeted[a.name()] = true
		r.notice(at, spatev1.Severity_SEVERITY_INFO,
			"agent %s connected during the run, which has its agents: it takes part if one of them is gone", a.name())
	default:
		r.greeted[a.name()] = true
		r.notice(at, spatev1.Severity_SEVERITY_INFO,
			"agent %s connected during the run: it takes part from the next stage", a.name())
	}
}

// Disconnected tells the machine that an agent's control stream is broken. This is not a loss yet: either the process
// comes back, or it is silent for too long.
func (r *Run) Disconnected(_ clock.Instant, name string, incarnation uint64, reason string) {
	a := r.agents[name]
	if a == nil || a.incarnation != incarnation {
		return
	}
	a.disconnected = cmp.Or(reason, "control stream broken")
	if !r.takesPart(a) {
		delete(r.agents, name)
	}
}

// takesPart reports whether an agent's process takes part in the run or is about to join.
func (r *Run) takesPart(a *agent) bool {
	return r.isListed(a) || r.joining != nil && r.joining.agent == a
}

// isListed reports whether an agent is in the roster. All but those that joined during the stage are found by name.
func (r *Run) isListed(a *agent) bool {
	i, found := slices.BinarySearchFunc(r.roster, a.name(), func(o *agent, name string) int {
		return strings.Compare(o.name(), name)
	})
	return found && r.roster[i] == a || slices.Contains(r.roster, a)
}

// Heard handles an agent's heartbeat. An agent that was lost because it was silent is back.
func (r *Run) Heard(at clock.Instant, name string, h *spatev1.Heartbeat) {
	a := r.agents[name]
	if a == nil || r.Ended() {
		return
	}
	a.heard, a.inFlight = at, h.GetInFlight()
	if a.lost != "" {
		r.returned(at, a)
		r.catchUp(at, r.assignmentOf(a))
	}
	if h.GetLeaving() && !a.ending {
		a.ending, a.returns = true, false
		if !a.leaving {
			r.leave(at, a)
		}
	}
}

// heldUp is how long the machine may go without a tick before it blames itself, not the agents, for silence.
const heldUp = time.Second

// noteTick notes the time of a tick. If the coordinator was held up, agents' messages may be waiting to be read, so
// their silence counts from now.
func (r *Run) noteTick(at clock.Instant) {
	if r.ticked != 0 && at.Sub(r.ticked) > heldUp {
		r.heldUpAt = at
	}
	r.ticked = at
}

// heardOf returns the instant from which an agent's silence counts.
func (r *Run) heardOf(a *agent) clock.Instant { return max(a.heard, r.heldUpAt) }

// loseSilent loses the agents that have been silent for too long.
func (r *Run) loseSilent(at clock.Instant) {
	isSilent := func(a *agent) bool { return a.lost == "" && at.Sub(r.heardOf(a)) >= r.silenceLimit(a) }
	for _, a := range r.agentsThat(isSilent) {
		if isSilent(a) { // the loss of another agent did not change that
			r.lose(at, a, silence(a, at.Sub(r.heardOf(a)).Round(100*time.Millisecond)))
		}
	}
}

// silenceLimit returns how long an agent may be silent. An agent that was connected before the coordinator restarted
// continues for its lease, and may take as long to come back.
func (r *Run) silenceLimit(a *agent) time.Duration {
	if a.notBack {
		return max(r.lease(), r.cfg.Silence)
	}
	return r.cfg.Silence
}

// silence returns, for people, how an agent was lost.
func silence(a *agent, silent time.Duration) string {
	switch {
	case a.notBack:
		return fmt.Sprintf("it did not come back within %v after the coordinator restarted", silent)
	case a.disconnected != "":
		return fmt.Sprintf("%s; no heartbeat for %v", a.disconnected, silent)
	default:
		return fmt.Sprintf("no heartbeat for %v", silent)
	}
}

// lose marks an agent as lost. The stage's policy decides about the agent's assignment.
func (r *Run) lose(at clock.Instant, a *agent, reason string) {
	if a.lost != "" {
		return
	}
	a.lost = reason
	r.dropJoining(at, a, "lost: "+reason)
	switch r.phase {
	case pausing:
		r.lostInPause(at, a)
	case applying, running, stopping:
		if p := r.assignmentOf(a); p != nil && !p.done() {
			r.loseAssignment(at, p, reason)
		}
	}
}

// lostInPause tells followers what a loss during a pause means for the next stage.
func (r *Run) lostInPause(at clock.Instant, a *agent) {
	if !r.isListed(a) || a.leaving {
		return
	}
	follows := "the run ends unless it is back when the pause is over"
	if policyOf(r.pending) != fail {
		follows = "the run continues without it unless it is back when the pause is over"
	}
	r.notice(at, spatev1.Severity_SEVERITY_WARNING, "agent %s lost in the pause: %s; %s", a.name(), a.lost, follows)
}

// agentsThat returns the agents that satisfy the predicate are, sorted by name, so that effects do not depend on the
// order of a map. It sorts only these, because it is called at each tick and there may be thousands of agents.
func (r *Run) agentsThat(are func(*agent) bool) []*agent {
	var out []*agent
	for _, a := range r.agents {
		if are(a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *agent) int { return strings.Compare(a.name(), b.name()) })
	return out
}

// available reports whether an agent can be given work. A disconnected agent of the run counts as available until it is
// lost.
func (r *Run) available(at clock.Instant, a *agent) bool {
	return a.lost == "" && !a.leaving && r.barred(a) == "" && at.Sub(r.heardOf(a)) < r.silenceLimit(a) && (a.disconnected == "" || r.takesPart(a))
}

// Refused tells the machine that the shell refused a snapshot. Its content, perhaps the totals, is missing for good, so
// the assignment ends.
func (r *Run) Refused(at clock.Instant, s *spatev1.Snapshot, reason string) {
	if p := r.senderOf(s); p != nil {
		r.endFaulty(at, p, fmt.Sprintf("the coordinator refused its snapshot of window %d: %s", s.GetWindow(), reason))
	}
}

// checkStalled ends the assignments of agents that send heartbeats but deliver no snapshots, so that no stage waits for
// them forever.
func (r *Run) checkStalled(at clock.Instant) {
	if r.phase != running {
		return
	}
	for _, p := range r.stage.assignments {
		switch {
		case p.done():
		case p.isLost() || p.agent.lost != "" || p.agent.disconnected != "" || p.delivered == 0:
			p.delivered = max(at, r.stage.start.Add(p.joined)) // restarts the count until it can deliver
		case at.Sub(max(p.delivered, r.heldUpAt)) >= r.cfg.Stall:
			r.endFaulty(at, p, fmt.Sprintf("it sends heartbeats, but delivered no measurements for %v: check its "+
				"log and the network between", r.cfg.Stall))
		}
		if r.phase != running {
			return
		}
	}
}

// endFaulty ends an assignment that cannot become whole although its agent is there.
func (r *Run) endFaulty(at clock.Instant, p *assignment, reason string) {
	switch {
	case p.done() || p.toldToEnd:
	case r.toleratesLossOf(p):
		r.tellToEnd(at, p, reason)
	default:
		p.failure = reason
		r.sendStopTo(p, true, reason)
		r.failAssignment(at, spatev1.FailureKind_FAILURE_KIND_AGENT, "agent "+p.agent.name()+": "+reason)
	}
}
