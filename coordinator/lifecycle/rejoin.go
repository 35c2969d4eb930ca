package lifecycle

import (
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// catchUp sends an agent that comes back what it may have missed of the stage in progress: it says what it works on, and whether it has been
// given a start. All of it may be said twice. A restored machine does not know who was ready, so that it asks all of them again.
func (r *Run) catchUp(name string, resume *spatev1.AssignmentRef, armed bool) {
	a := r.agents[name]
	if resume != nil && resume.GetRunId() == r.id && !r.stage.matches(resume) {
		r.do(Send{Agent: name, Message: &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Stop{Stop: &spatev1.Stop{
			Ref: resume, Immediately: true, Reason: "its stage has ended",
		}}}})
	}
	p, rank := r.partOf(a)
	if p == nil || p.done() {
		return
	}
	switch r.phase {
	case applying:
		if !p.applied || !r.stage.matches(resume) {
			p.applied = false
			r.sendAssign(p, rank)
		}
	case running:
		if !armed && r.stage.matches(resume) {
			r.sendArm(p)
		}
		r.sendMeasure(p)
	case stopping:
		r.sendStopTo(p)
	}
}

// partOf returns an agent's part of the stage in progress and its place, nil if it has none.
func (r *Run) partOf(a *agent) (*share, int) {
	if r.stage == nil {
		return nil, 0
	}
	for i, p := range r.stage.shares {
		if p.agent == a {
			return p, i
		}
	}
	return nil, 0
}
