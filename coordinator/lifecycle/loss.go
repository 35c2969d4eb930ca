package lifecycle

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Policies for a stage that loses an agent, see Stage.on_agent_loss.
const (
	fail     = "fail"
	degrade  = "degrade"
	reassign = "reassign"
)

// policyOf returns a stage's policy. The default is fail.
func policyOf(st *spatev1.Stage) string { return cmp.Or(st.GetOnAgentLoss(), fail) }

func (r *Run) policy() string { return policyOf(r.stage.record.GetStage()) }

// lease returns how long agents continue without the coordinator. The shorter lease of a stage with policy reassign
// counts from the same heartbeats.
func (r *Run) lease() time.Duration {
	if r.stage != nil && r.policy() == reassign {
		return min(r.cfg.Lease, r.cfg.ReassignLease)
	}
	return r.cfg.Lease
}

// fenceOf returns the instant after which a silent agent starts nothing more. The agent's lease counts from when it
// sent the last heartbeat that was answered, which was before that heartbeat was heard.
func (r *Run) fenceOf(a *agent) clock.Instant { return r.heardOf(a).Add(r.lease()) }

// toleratesLossOf reports whether the stage continues without an assignment.
func (r *Run) toleratesLossOf(p *assignment) bool {
	return r.policy() != fail && p.totals.GetFailureKind() != spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD
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
	if p := r.assignmentOf(a); p != nil && !p.done() && r.phase.inStage() && r.phase != closing {
		r.loseAssignment(at, p, reason)
	}
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

// loseAssignment applies the policy when the agent of an assignment is lost.
func (r *Run) loseAssignment(at clock.Instant, p *assignment, reason string) {
	switch {
	case p.toldToEnd && r.toleratesLossOf(p): // will be dropped anyway
	case p.agent.replaced && r.phase != applying && r.replaceable(p):
		r.replace(at, p, reason)
	case r.policy() == fail:
		r.failBy(at, p, "lost: "+reason)
	case r.phase == applying:
		r.assignAgain(at, p, reason)
	default:
		r.markLost(p, reason, r.fenceOf(p.agent))
		r.sayLost(at, p, reason, r.consequence(p))
	}
}

// replace drops the assignment of a process whose name another process has taken. The old process cannot deliver what
// is missing, and no agent takes the assignment over, so there is no reason to wait for the end of the lease.
func (r *Run) replace(at clock.Instant, p *assignment, reason string) {
	r.markToldToEnd(p, reason)
	p.fence = at
	r.sayLost(at, p, reason, r.consequence(p))
	r.dropAssignment(at, p)
}

// replaceable reports whether an assignment can be dropped as soon as its process is known to be gone.
func (r *Run) replaceable(p *assignment) bool { return r.toleratesLossOf(p) && r.policy() == degrade }

// markLost marks an assignment as lost until its agent comes back. If a handover takes a part from the assignment
// without its agent knowing, the wait ends before the part changes hands, since then two agents could have it.
func (r *Run) markLost(p *assignment, reason string, fence clock.Instant) {
	p.lost, p.fence = reason, fence
	if gives := r.stage.givesAt(p); gives != 0 {
		p.fence = min(p.fence, gives)
	}
}

// returned handles a lost agent that is heard again.
func (r *Run) returned(at clock.Instant, a *agent) {
	if a.lost == "" {
		return
	}
	a.lost = ""
	p := r.assignmentOf(a)
	if p == nil || !p.isLost() || p.toldToEnd || r.phase != running && r.phase != stopping {
		return
	}
	inTime := at < p.fence
	p.lost, p.fence, p.lossTold = "", 0, false
	if inTime {
		r.notice(at, spatev1.Severity_SEVERITY_INFO, "agent %s is back: nothing is missing", a.name())
	} else {
		r.notice(at, spatev1.Severity_SEVERITY_WARNING,
			"agent %s is back after its lease of %v: what it measured until then counts", a.name(), r.lease())
	}
}

// checkLost decides about assignments that are still lost at their fence.
func (r *Run) checkLost(at clock.Instant) {
	for _, p := range r.stage.assignments {
		if (r.phase == running || r.phase == stopping) && p.isLost() && at >= p.fence {
			r.decide(at, p)
		}
	}
	r.tellTakers(at)
}

// mayReturn reports whether any lost assignment may still come back.
func (s *stage) mayReturn(at clock.Instant) bool {
	return slices.ContainsFunc(s.assignments, func(p *assignment) bool {
		return p.isLost() && !p.toldToEnd && at < p.fence
	})
}

// decide applies the policy to an assignment that is lost beyond its fence: the run fails, others take the assignment
// over, or the assignment is dropped. It is dropped once nothing else is waited for, at the latest stopGrace after its
// fence.
func (r *Run) decide(at clock.Instant, p *assignment) {
	over := r.stage.all(func(q *assignment) bool { return q == p || q.done() || q.isLost() && at >= q.fence })
	if !p.lossTold {
		r.sayLost(at, p, p.lost, r.consequence(p))
	}
	switch {
	case r.policy() == fail:
		r.failBy(at, p, r.lossText(p))
	case r.phase == running && r.policy() == reassign:
		r.takeOver(at, p)
	case over || p.toldToEnd || r.stage.givesAt(p) != 0 || at >= p.fence.Add(stopGrace):
		r.dropAssignment(at, p)
	}
}

// failBy fails the run because of an assignment. If its agent does not know that others will have a part of it, what it
// sends from now on does not count.
func (r *Run) failBy(at clock.Instant, p *assignment, failure string) {
	p.failure = failure
	if r.stage.givesAt(p) != 0 {
		r.writeOff(p)
		r.do(PutStage{r.stage.snapshot()})
	}
	r.failRun(at, "agent "+p.agent.name()+" "+failure)
}

// dropAssignment drops an assignment that is lost: what it measures from now on does not count.
func (r *Run) dropAssignment(at clock.Instant, p *assignment) {
	r.writeOff(p)
	r.do(PutStage{r.stage.snapshot()})
	r.sayMissing(at, p)
	r.stopDropped(p, "it was dropped: "+p.failure)
	r.settle(at)
}

// writeOff records what is missing because of an assignment.
func (r *Run) writeOff(p *assignment) {
	p.failure = cmp.Or(p.failure, p.totals.GetFailure(), r.lossText(p))
	p.loss = &spatev1.Loss{FromWindow: p.covered.next, Share: r.stage.part(p), UnsentFromWindow: p.unsentFrom()}
	r.incomplete = true
}

// unsentFrom returns the first window in which requests of an assignment were due and never sent, if it is before the
// first window that is missing entirely: the process stalled, or drained after the end of its lease, and sent its later
// windows all the same. It returns nil if there is no such window or it is not known.
func (p *assignment) unsentFrom() *uint32 {
	from := p.totals.GetUnsentFromNs()
	if p.totals == nil || p.totals.UnsentFromNs == nil || from < 0 {
		return nil
	}
	window := uint32(min(from/int64(time.Second), math.MaxUint32))
	if window >= p.covered.next {
		return nil
	}
	return &window
}

// tellToEnd ends the assignment of an agent that is running but does not do what it should. Its totals are waited for
// as for a lost agent.
func (r *Run) tellToEnd(at clock.Instant, p *assignment, reason string) {
	r.markToldToEnd(p, reason)
	r.markLost(p, reason, at.Add(r.lease()))
	r.sayLost(at, p, reason, r.consequence(p))
	r.sendStopTo(p, false, reason)
}

// markToldToEnd notes that an agent is told, or should be told, to end its assignment. The note is in the checkpoint,
// so that a restarted coordinator does not take the assignment's end for a regular one.
func (r *Run) markToldToEnd(p *assignment, reason string) {
	p.lost, p.toldToEnd, p.answerBy = reason, true, 0
	r.unsaved = true
}

// stopDropped tells the agent of an assignment that was dropped to stop, if the agent can be reached.
func (r *Run) stopDropped(p *assignment, reason string) {
	if p.agent.lost == "" && p.agent.disconnected == "" && !p.whole() {
		r.sendStopTo(p, true, reason)
	}
}

// sayLost tells followers that an agent is lost, and the consequence.
func (r *Run) sayLost(at clock.Instant, p *assignment, reason, consequence string) {
	p.lossTold = true
	r.changed(at, p, false, reason, consequence)
}

// changed tells followers that an agent was lost or joined, and the consequence.
func (r *Run) changed(at clock.Instant, p *assignment, joined bool, reason, consequence string) {
	r.emit(at, &spatev1.RunEvent{Event: &spatev1.RunEvent_AgentChanged{AgentChanged: &spatev1.AgentChanged{
		StageIndex: r.stage.ref.GetStageIndex(), Agent: clone(p.agent.info), Joined: joined, Reason: reason,
		Consequence: consequence,
	}}})
}

// consequence returns, for people, the consequence of a loss.
func (r *Run) consequence(p *assignment) string {
	missing := fmt.Sprintf("%s of the load is missing from second %d on", percent(r.stage.part(p)), p.covered.next)
	switch {
	case p.toldToEnd && r.phase == running && r.policy() == reassign:
		return missing + "; the others take it over"
	case p.toldToEnd:
		return missing
	case r.phase == stopping:
		return missing + " unless it sends the rest in time"
	case r.policy() == reassign:
		return fmt.Sprintf("%s; unless it is back by second %d the others take it over", missing, r.second(p.fence))
	default:
		return fmt.Sprintf("%s unless it is back by second %d", missing, r.second(p.fence))
	}
}

// second returns an instant as whole seconds since the stage's start.
func (r *Run) second(at clock.Instant) int64 {
	return int64(math.Floor(at.Sub(r.stage.start).Seconds()))
}

func percent(part float64) string { return fmt.Sprintf("%.3g %%", 100*part) }

func (r *Run) lossText(p *assignment) string {
	if p.toldToEnd {
		return p.lost
	}
	return "lost: " + p.lost
}

// sayMissing tells followers what is missing for good.
func (r *Run) sayMissing(at clock.Instant, p *assignment) {
	r.notice(at, spatev1.Severity_SEVERITY_ERROR,
		"agent %s is dropped (%s): %s of the load is missing from second %d on%s",
		p.agent.name(), p.failure, percent(p.loss.GetShare()), p.loss.GetFromWindow(), p.unsentText())
}

// unsentText returns, for people, what was due before the missing windows and never sent. Empty: nothing. Others may
// send what they take over.
func (p *assignment) unsentText() string {
	if p.loss.UnsentFromWindow == nil {
		return ""
	}
	requests := "requests"
	if p.loss.TakenOverNs == nil && p.totals.GetNeverSent() > 0 {
		requests = words.Count(p.totals.GetNeverSent(), "request")
	}
	return fmt.Sprintf(", and it never sent %s, due from second %d on", requests, p.loss.GetUnsentFromWindow())
}
