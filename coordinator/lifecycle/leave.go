package lifecycle

import (
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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
