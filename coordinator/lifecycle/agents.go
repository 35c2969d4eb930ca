package lifecycle

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/allotment"
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
	case old != a:
		r.supersede(at, old)
	default:
		r.returned(at, a)
	}
	r.resendMissed(at, a, resume, armed)
}

// resendMissed tells an agent that has reconnected all that it may have missed, based on what it says it works on.
func (r *Run) resendMissed(at clock.Instant, a *agent, resume *spatev1.AssignmentRef, armed bool) {
	if c := r.joining; c != nil && c.agent == a {
		r.sendAssign(c)
		return
	}
	p := r.assignmentOf(a)
	has, dropped := r.stage.concerns(resume), p == nil || p.failure != ""
	// A later stage was assigned by a coordinator whose data directory this is an older copy of.
	if dropped || resume.GetStageIndex() > r.stage.ref.GetStageIndex() {
		r.stopStale(a, resume)
	}
	switch {
	case dropped:
	case p.done() || r.phase == closing:
	case r.phase == applying:
		r.resendAssign(at, p, has && resume.GetRevision() == p.revision)
	case !has && p.active():
		r.cameBackWithout(at, p)
	case has:
		r.resendChanges(at, p, resume, armed)
		r.checkAnswers(at)
	}
}

// stopStale stops an agent's work on an assignment that was dropped. New work may be assigned at once; the agent must
// queue it.
func (r *Run) stopStale(a *agent, resume *spatev1.AssignmentRef) {
	if resume.GetRunId() != r.id {
		return
	}
	r.do(Send{Agent: a.name(),
		Message: &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Stop{Stop: &spatev1.Stop{
			Ref: clone(resume), Immediately: true, Reason: "its assignment was dropped while it was disconnected",
		}}}})
}

// resendAssign sends an assignment again to an agent that does not have it, or whose answer was lost.
func (r *Run) resendAssign(at clock.Instant, p *assignment, knows bool) {
	if p.applied && knows {
		r.armIfReady(at)
		return
	}
	p.applied = false
	r.sendAssign(p)
}

// resendChanges tells an agent what has changed, when the stage starts, and whether the stage ends.
func (r *Run) resendChanges(at clock.Instant, p *assignment, resume *spatev1.AssignmentRef, armed bool) {
	p.revision = min(resume.GetRevision(), r.stage.ref.GetRevision())
	p.agreed(p.revision)
	if resume.GetRevision() < r.stage.ref.GetRevision() && p.active() {
		p.answerBy = max(p.answerBy, at.Add(r.cfg.Silence))
		r.sendRevise(p)
	}
	if r.phase == stopping || p.toldToEnd {
		r.resendStop(p)
		return
	}
	if !armed {
		r.sendArm(p)
	}
	r.sendMeasure(p)
	if p.leaving {
		r.sendLeave(p)
	}
}

// resendStop repeats the message that tells an agent to end its assignment.
func (r *Run) resendStop(p *assignment) {
	if p.toldToEnd {
		r.sendStopTo(p, false, p.lost)
		return
	}
	r.sendStopTo(p, r.stage.immediate, r.whyStopped())
}

// cameBackWithout handles an agent that came back without its assignment. Either the agent has ended the assignment,
// and its totals are on their way, or it has lost the assignment.
func (r *Run) cameBackWithout(at clock.Instant, p *assignment) {
	r.markToldToEnd(p, "came back without its assignment")
	r.markLost(p, p.lost, at.Add(stopGrace))
	r.checkLost(at)
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

// catchUp tells an agent that was only silent the changes that it was not told.
func (r *Run) catchUp(at clock.Instant, p *assignment) {
	if p == nil || r.phase != running && r.phase != stopping {
		return
	}
	if p.active() && p.revision < r.stage.ref.GetRevision() {
		p.answerBy = at.Add(r.cfg.Silence)
		r.sendRevise(p)
	}
	if r.phase == stopping && !p.done() {
		r.resendStop(p)
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

// Cordon tells the machine whether an agent takes runs, before it is connected or later. A cordoned agent stays in the
// run if it has a part, a drained one leaves it as one that was asked to end. An agent that left and takes runs again
// takes part from the next stage on.
func (r *Run) Cordon(at clock.Instant, name string, c spatev1.Cordon) {
	if r.Ended() {
		return
	}
	r.cordons[name] = c
	a := r.agents[name]
	switch {
	case a == nil:
	case c == spatev1.Cordon_CORDON_DRAINED:
		if a.returns = false; !a.leaving {
			r.leave(at, a)
		}
	case c == spatev1.Cordon_CORDON_UNSPECIFIED && a.leaving && !a.ending:
		a.returns = true
	}
}

// barred returns why an agent may not be given work, empty if it may.
func (r *Run) barred(a *agent) string {
	takesPart := func(other *agent) bool { return other.name() == a.name() }
	switch c := r.cordons[a.name()]; {
	case c == spatev1.Cordon_CORDON_DRAINED:
		return "it is drained"
	case c == spatev1.Cordon_CORDON_CORDONED && !slices.ContainsFunc(r.roster, takesPart):
		return "it is cordoned"
	}
	return ""
}

// excluded returns why an agent does not take part in a stage, empty if it may.
func (r *Run) excluded(a *agent, st *spatev1.Stage) string {
	return cmp.Or(r.barred(a), allotment.Unfit(a.info, st))
}

// Busy reports whether an agent takes part in the run and the run has not ended.
func (r *Run) Busy(name string) bool {
	a := r.agents[name]
	return a != nil && !r.Ended() && r.takesPart(a)
}

// Released reports whether an agent that is leaving takes part in nothing any more, so that it may end.
func (r *Run) Released(name string) bool {
	a := r.agents[name]
	if a == nil {
		return true
	}
	p := r.assignmentOf(a)
	return (a.leaving || r.barred(a) != "") && (p == nil || p.done() || r.phase == closing)
}

// A run sees only the agents that belong to it, because an agent belongs to one run at most. The shell gives it those
// that it wants and takes back those that it does not need.

// Wants reports whether the run would use one more agent, now or from the next stage on.
func (r *Run) Wants(at clock.Instant, a *spatev1.AgentInfo) bool {
	st := r.first()
	if r.Ended() || r.stopped || allotment.Unfit(a, st) != "" {
		return false
	}
	most := int(st.GetAgents().GetCount())
	if most == 0 {
		return true
	}
	has := r.agentsThat(func(a *agent) bool { return r.available(at, a) })
	return len(has) < most ||
		r.phase == gathering && slices.Contains(withoutAgents(has, st.GetRegions()), a.GetRegion())
}

// Needs returns the names of the agents that must stay with the run: those that take part, and those that may take part
// later. The run must not have ended.
func (r *Run) Needs(at clock.Instant) map[string]bool {
	needs, present := map[string]bool{}, 0
	for _, a := range r.roster { // another process may have the name
		needs[a.name()] = true
		if r.available(at, a) {
			present++
		}
	}
	most := int(r.first().GetAgents().GetCount())
	for _, a := range r.agentsThat(func(a *agent) bool { return !needs[a.name()] }) {
		joins := r.joining != nil && r.joining.agent == a
		if joins || r.available(at, a) && (most == 0 || r.phase == gathering || present < most) {
			needs[a.name()] = true
			present++
		}
	}
	return needs
}
