package lifecycle

import (
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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

// cameBackWithout handles an agent that came back without its assignment. Either the agent has ended the assignment,
// and its totals are on their way, or it has lost the assignment.
func (r *Run) cameBackWithout(at clock.Instant, p *assignment) {
	r.markToldToEnd(p, "came back without its assignment")
	r.markLost(p, p.lost, at.Add(r.cfg.StopGrace))
	r.checkLost(at)
}
