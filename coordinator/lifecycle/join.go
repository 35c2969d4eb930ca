package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/allotment"
	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// full reports whether a stage in progress has as many agents as the plan asks for.
func (r *Run) full(st *spatev1.Stage) bool {
	most := int(st.GetAgents().GetCount())
	present := r.stage.where(func(p *assignment) bool { return !p.done() && !p.isLost() && !p.agent.leaving })
	return most > 0 && len(present) >= most
}

// leastJoinLead is the shortest time from the decision to let a newcomer join to its start.
const leastJoinLead = 3 * time.Second

// giveMargin is how long before a part changes hands its giver must have applied the change. It is longer than a tick
// plus the difference between clocks, so that a giver that did not apply the change is out before it can deliver
// anything that belongs to another agent by then.
const giveMargin = 500 * time.Millisecond

// joinLead returns the time from the decision to the change. It exceeds Silence, so that givers that are unreachable
// for less than that still hear of the change.
func (r *Run) joinLead() time.Duration { return max(leastJoinLead, r.cfg.Silence+giveMargin+r.lead()) }

// mayJoin reports whether agents may join a stage in progress: always under reassign, else once an agent leaves, so
// that the load of agents that are restarted one after another does not end up on the last one. In a closed loop they
// may not, because slots stay with their agents. Neither do the places of an open loop that limits its requests in
// flight change hands while taken.
func (r *Run) mayJoin(st *spatev1.Stage) bool {
	if r.phase != running || !openLoop(st.GetLoad()) || st.GetLoad().GetMaxInFlight() > 0 ||
		r.stage.weights() > mostWeights {
		return false
	}
	return policyOf(st) == reassign || slices.ContainsFunc(r.stage.assignments, func(p *assignment) bool {
		return p.left != nil || p.agent.leaving
	})
}

// mostWeights bounds the weights in the handovers of a stage that still takes newcomers on. All agents are told all of
// them at each change, and each newcomer adds those of all who give it a part.
const mostWeights = 1 << 20

// weights returns how many weights the handovers of the stage have.
func (s *stage) weights() (n int) {
	return lists.Sum(s.record.GetHandovers(), func(h *spatev1.Handover) int { return len(h.GetWeights()) })
}

// admit lets agents join the stage, one after another. A newcomer first gets an empty assignment, and its part
// when it is ready.
func (r *Run) admit(at clock.Instant) {
	st := r.stage.record.GetStage()
	if !r.mayJoin(st) || r.full(st) || r.overBy(r.changeFrom(at, r.joinLead())) || len(r.givers()) == 0 {
		return
	}
	newcomers := r.agentsThat(func(a *agent) bool {
		return r.available(at, a) && a.disconnected == "" && allotment.Unfit(a.info, st) == "" && r.assignmentOf(a) == nil
	})
	for _, a := range newcomers {
		if r.mayAsk(at, a) {
			r.invite(at, a)
			return
		}
	}
}

// mostPlaces is how often agents of one name may take or decline a place in a stage. A place stays in the stage's
// record for good, with all its handovers, so an agent that keeps restarting must not add more and more places.
const mostPlaces = 4

// mayAsk reports whether a newcomer is asked to join. When its name first reaches mostPlaces, followers are told.
func (r *Run) mayAsk(at clock.Instant, a *agent) bool {
	declined := r.stage.declined[a.name()]
	if slices.Contains(declined, a.incarnation) {
		return false
	}
	had := len(declined) + len(r.stage.where(func(p *assignment) bool { return p.agent.name() == a.name() }))
	if had == mostPlaces {
		r.stage.declined[a.name()] = append(declined, a.incarnation)
		r.notice(at, spatev1.Severity_SEVERITY_WARNING,
			"agent %s is not asked to join stage %d again: %d of its processes were lost, or did not join",
			a.name(), r.stage.ref.GetStageIndex()+1, had)
	}
	return had < mostPlaces
}

// checkJoining admits newcomers, and drops one that is not ready in time.
func (r *Run) checkJoining(at clock.Instant) {
	switch c := r.joining; {
	case r.phase != running:
	case c == nil:
		r.admit(at)
	case at >= r.joinBy:
		r.dropJoining(at, c.agent, "was not ready in time")
	}
}

// invite sends a newcomer its assignment.
func (r *Run) invite(at clock.Instant, a *agent) {
	s := r.stage
	a.inFlight = 0
	r.joining = &assignment{
		agent: a, rank: uint32(len(s.assignments)), weight: r.weightOf(a), revision: s.ref.GetRevision(),
		knows: s.ref.GetRevision(),
	}
	r.joinBy = at.Add(r.applyTimeout(s.record.GetStage()))
	r.sendAssign(r.joining)
}

// weightOf returns the weight of a newcomer, on the scale of the others' weights.
func (r *Run) weightOf(a *agent) uint32 {
	var present []*spatev1.AgentInfo
	var given []uint32
	for _, p := range r.near(r.stage.assignments, a) {
		present, given = append(present, p.agent.info), append(given, p.weight)
	}
	return weightBeside(a.info, present, given)
}

// near returns the places by which a newcomer's weight is scaled, or that give it its part: those of its region if the
// plan splits by region and there are any, else all.
func (r *Run) near(places []*assignment, a *agent) []*assignment {
	if len(r.stage.record.GetStage().GetRegions()) == 0 {
		return places
	}
	return inRegion(places, a.info.GetRegion())
}

// givers returns the active places that can give a newcomer its part.
func (r *Run) givers() []*assignment {
	return r.stage.where(func(p *assignment) bool { return p.active() && p.left == nil })
}

// join gives a newcomer that is ready its part of each giver's assignment.
func (r *Run) join(at clock.Instant, c *assignment) {
	s := r.stage
	givers, from := r.near(r.givers(), c.agent), max(time.Second, r.changeFrom(at, r.joinLead()))
	if r.phase != running || len(givers) == 0 || r.overBy(from) {
		r.dropJoining(at, c.agent, "came too late to join")
		return
	}
	r.joining = nil
	c.joined, c.covered.next = from, uint32(from/time.Second)
	handovers := handoversTo(givers, c)
	s.assignments = append(s.assignments, c)
	s.enter(c)
	r.roster = append(r.roster, c.agent)
	r.revise(at, from, handovers...)
	r.sendArm(c)
	r.sendMeasure(c)
	r.changed(at, c, true, "", fmt.Sprintf("it takes %s of the load from second %d on", percent(s.part(c)),
		from/time.Second))
}

// handoversTo returns handovers that give a newcomer the same fraction of each giver's assignment: its weight over the
// sum of all weights, its own included.
func handoversTo(givers []*assignment, c *assignment) []*spatev1.Handover {
	sum := lists.Sum(givers, func(p *assignment) uint32 { return p.weight })
	var out []*spatev1.Handover
	for _, p := range givers {
		ws := make([]uint32, c.rank+1)
		ws[p.rank], ws[c.rank] = sum, c.weight
		out = append(out, &spatev1.Handover{FromRank: p.rank, Weights: ws, FromNs: c.joined.Nanoseconds()})
	}
	return out
}

// dropJoining continues without the newcomer, if a is the newcomer. The agent may take part in the next stage.
func (r *Run) dropJoining(at clock.Instant, a *agent, reason string) {
	c := r.joining
	if c == nil || c.agent != a {
		return
	}
	r.joining = nil
	r.stage.declined[a.name()] = append(r.stage.declined[a.name()], a.incarnation)
	if a.lost == "" && a.disconnected == "" {
		r.sendStopTo(c, true, reason)
	}
	if a.disconnected != "" {
		delete(r.agents, a.name())
	}
	r.notice(at, spatev1.Severity_SEVERITY_INFO, "agent %s does not join stage %d: %s", a.name(),
		r.stage.ref.GetStageIndex()+1, reason)
}

// An agent that was asked to end, or is drained, leaves: it takes nothing on, hands over what it has, and is released
// once all that it measured is here. Nothing is missing, so this is possible under each policy. In an open loop the
// others take its arrivals over from a whole second on. In a closed loop it begins nothing more, and the others take
// the rest over when its next snapshot has told what that is: its slots rest for one to two seconds.

// leave lets an agent leave.
func (r *Run) leave(at clock.Instant, a *agent) {
	a.leaving, r.unsaved = true, true
	r.dropJoining(at, a, "it is leaving")
	p := r.assignmentOf(a)
	switch {
	case p == nil || p.done() || p.toldToEnd:
	case r.phase == applying:
		r.notice(at, spatev1.Severity_SEVERITY_INFO, "agent %s is leaving: the stage is assigned again without it", a.name())
		r.sendStopTo(p, true, "it is leaving")
		r.assignWithout(at, p, "left")
	default:
		r.checkLeaving(at)
	}
}

// checkLeaving lets agents that are leaving hand over what they have, as soon as another agent can take it.
func (r *Run) checkLeaving(at clock.Instant) {
	if r.phase != running {
		return
	}
	for _, p := range r.stage.assignments {
		if p.agent.leaving && !p.leaving && p.active() {
			r.handOver(at, p)
		}
	}
}

// handOver hands over what an agent that leaves has not begun. If there is no agent to take it, or nothing to take, the
// agent ends its assignment as if it stayed.
func (r *Run) handOver(at clock.Instant, p *assignment) {
	st := r.stage.record.GetStage()
	open, takers, from := openLoop(st.GetLoad()), r.takers(p), r.changeFrom(at, r.joinLead())
	switch {
	case len(takers) == 0:
		if !p.stays {
			p.stays, r.unsaved = true, true
			r.notice(at, spatev1.Severity_SEVERITY_WARNING, "agent %s is leaving, and no other agent can take its "+
				"part of the load over: it stays until the stage ends, if it can", p.agent.name())
		}
		return
	case r.overBy(from):
		return
	case open && r.stage.part(p) > 0:
		r.giveAll(at, p, takers, from)
	}
	p.leaving = true
	r.sendLeave(p)
}

// giveAll gives all that an assignment has not begun to others: in an open loop from an offset on, in a closed loop
// now.
func (r *Run) giveAll(at clock.Instant, p *assignment, takers []*assignment, from time.Duration) {
	h, since := r.handoverOf(at, p, takers, from)
	p.left = new(since.Nanoseconds())
	r.notice(at, spatev1.Severity_SEVERITY_INFO, "agent %s is leaving: its %s of the load is taken over by %s in second %d",
		p.agent.name(), percent(r.stage.part(p)), namesOf(takers), since/time.Second)
	r.revise(at, since, h)
}

// passOn gives what an agent that has left a closed loop had not begun to others.
func (r *Run) passOn(at clock.Instant, p *assignment) {
	if !p.hasLeft || r.phase != running || r.stage.part(p) == 0 {
		return
	}
	if takers := r.takers(p); len(takers) > 0 {
		r.giveAll(at, p, takers, 0)
	}
}

// sendLeave tells an agent to start nothing that others can take over.
func (r *Run) sendLeave(p *assignment) {
	r.send(p, &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Stop{Stop: &spatev1.Stop{
		Ref: r.stage.refTo(p), Reason: "it is leaving", Leave: true,
	}}})
}
