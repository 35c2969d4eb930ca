package lifecycle

import (
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// remind tells an agent that has reconnected all that it may have missed, based on what it says it works on.
func (r *Run) remind(at clock.Instant, a *agent, resume *spatev1.AssignmentRef, armed bool) {
	if c := r.joining; c != nil && c.agent == a {
		r.sendAssign(c)
		return
	}
	p := r.shareOf(a)
	has := r.stage.concerns(resume)
	switch {
	case p == nil || p.failure != "":
		r.forsake(a, resume)
	case p.done() || r.phase == closing:
	case r.phase == applying:
		r.remindApplying(at, p, has && resume.GetRevision() == p.revision)
	case !has && p.active():
		r.lacks(at, p)
	case has:
		r.remindRunning(at, p, resume, armed)
		r.checkAnswers(at)
	}
}

// forsake stops an agent's work on an assignment that was given up. New work may be assigned at once; the agent must
// queue it.
func (r *Run) forsake(a *agent, resume *spatev1.AssignmentRef) {
	if resume.GetRunId() != r.id {
		return
	}
	r.do(Send{Agent: a.name(),
		Message: &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Stop{Stop: &spatev1.Stop{
			Ref: clone(resume), Immediately: true, Reason: "its assignment was dropped while it was disconnected",
		}}}})
}

// remindApplying assigns a share again to an agent that does not have it, or whose answer was lost.
func (r *Run) remindApplying(at clock.Instant, p *share, knows bool) {
	if p.applied && knows {
		r.armIfReady(at)
		return
	}
	p.applied = false
	r.sendAssign(p)
}

// remindRunning tells an agent what has changed, when the stage starts, and whether the stage ends.
func (r *Run) remindRunning(at clock.Instant, p *share, resume *spatev1.AssignmentRef, armed bool) {
	p.revision = min(resume.GetRevision(), r.stage.ref.GetRevision())
	p.agreed(p.revision)
	if resume.GetRevision() < r.stage.ref.GetRevision() && p.active() && !p.observer {
		p.answerBy = max(p.answerBy, at.Add(r.cfg.Silence))
		r.sendRevise(p)
	}
	if r.phase == stopping || p.out {
		r.remindStop(p)
		return
	}
	if !armed {
		r.sendArm(p)
	}
	r.sendMeasure(p)
}

// remindStop repeats the message that tells an agent to end its share.
func (r *Run) remindStop(p *share) {
	if p.out {
		r.sendStopTo(p, false, p.lost)
		return
	}
	r.sendStopTo(p, r.stage.immediate, r.whyStopped())
}

// catchUp tells an agent that was only silent the changes that it was not told.
func (r *Run) catchUp(at clock.Instant, p *share) {
	if p == nil || r.phase != running && r.phase != stopping {
		return
	}
	if p.active() && !p.observer && p.revision < r.stage.ref.GetRevision() {
		p.answerBy = at.Add(r.cfg.Silence)
		r.sendRevise(p)
	}
	if r.phase == stopping && !p.done() {
		r.remindStop(p)
	}
}

// lacks handles an agent that came back without its assignment. Either the agent has ended the share, and its totals are on
// their way, or it has lost the share.
func (r *Run) lacks(at clock.Instant, p *share) {
	r.putOut(p, "came back without its assignment")
	r.leave(p, p.lost, at.Add(r.cfg.StopGrace))
	r.checkAway(at)
}
