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
		r.sayLost(at, p, reason, "%s", r.consequence(p))
	}
}

// replace drops the assignment of a process whose name another process has taken. The old process cannot deliver what
// is missing, and no agent takes the assignment over, so there is no reason to wait for the end of the lease.
func (r *Run) replace(at clock.Instant, p *assignment, reason string) {
	r.markToldToEnd(p, reason)
	p.fence = at
	r.sayLost(at, p, reason, "%s", r.consequence(p))
	r.dropAssignment(at, p)
}

// replaceable reports whether an assignment can be dropped as soon as its process is known to be gone.
func (r *Run) replaceable(p *assignment) bool {
	return r.toleratesLossOf(p) && r.policy() == degrade
}

// markLost marks an assignment as lost until its agent comes back. If a handover takes a part from the assignment
// without its agent knowing, the wait ends before the part changes hands, since then two agents could have it.
func (r *Run) markLost(p *assignment, reason string, fence clock.Instant) {
	p.lost, p.fence = reason, fence
	if gives := r.stage.givesAt(p); gives != 0 {
		p.fence = min(p.fence, gives)
	}
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

// assignAgain assigns a stage that was not armed yet to the remaining agents.
func (r *Run) assignAgain(at clock.Instant, lost *assignment, reason string) {
	r.sayLost(at, lost, reason, "the stage is assigned again without it")
	r.assignWithout(at, lost, "lost: "+reason)
}

// assignWithout assigns a stage that was not armed yet to the agents that are there. If that is not possible, the run
// fails, and the assignment that is gone has failed.
func (r *Run) assignWithout(at clock.Instant, gone *assignment, failure string) {
	st, revision := r.stage.record.GetStage(), r.stage.ref.GetRevision()
	if why := r.updateRoster(at, st); why != "" {
		gone.failure = failure
		r.failRun(at, why)
		return
	}
	r.assign(at, st, revision+1)
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

// decide applies the policy to an assignment that is lost beyond its fence: the run fails, others take the assignment
// over, or the assignment is dropped. It is dropped once nothing else is waited for, at the latest StopGrace after its
// fence.
func (r *Run) decide(at clock.Instant, p *assignment) {
	over := r.stage.all(func(q *assignment) bool { return q == p || q.done() || q.isLost() && at >= q.fence })
	if !p.lossTold {
		r.sayLost(at, p, p.lost, "%s", r.consequence(p))
	}
	switch {
	case r.policy() == fail:
		r.failBy(at, p, r.lossText(p))
	case r.phase == running && r.policy() == reassign:
		r.takeOver(at, p)
	case over || p.toldToEnd || r.stage.givesAt(p) != 0 || at >= p.fence.Add(r.cfg.StopGrace):
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

// failedItself reports whether the assignment ended by a failure of its own agent.
func (p *assignment) failedItself() bool {
	return p.totals.GetFailure() != "" && !p.totals.GetStopped()
}

// sayFailedItself tells followers, once, that an agent has ended its assignment early.
func (r *Run) sayFailedItself(at clock.Instant, p *assignment) {
	if p.lossTold {
		return
	}
	follows := "its part of the load is missing from then on"
	if r.phase == running && r.policy() == reassign {
		follows = "the others take its part over"
	}
	r.sayLost(at, p, p.totals.GetFailure(), "%s", follows)
}

// endAssignment checks whether an assignment whose snapshots are all merged has done all that it should.
func (r *Run) endAssignment(at clock.Instant, p *assignment) {
	if p.totals.GetStopped() && r.phase == running && !p.toldToEnd {
		r.markToldToEnd(p, "was stopped, but not by its run") // else the loss would go unnoticed
		if !r.toleratesLossOf(p) {
			r.failAssignment(at, spatev1.FailureKind_FAILURE_KIND_AGENT, "agent "+p.agent.name()+" "+p.lost)
			return
		}
		r.sayLost(at, p, p.lost, "%s", r.consequence(p))
	}
	switch {
	case p.failedItself(), p.toldToEnd && p.totals.GetStopped():
		r.handOn(at, p)
	case r.phase == running && p.hasLeft && r.stage.part(p) > 0:
		r.markToldToEnd(p, "left, and no other agent was there to take the rest over")
		r.handOn(at, p)
	case r.phase == running && r.stage.hasUnappliedHandover(p):
		if !r.passOnUnapplied(at, p) {
			r.markToldToEnd(p, cmp.Or(p.lost, "ended its assignment before it learned of a change"))
			r.handOn(at, p)
		}
	default:
		p.lost, r.unsaved = "", r.unsaved || p.toldToEnd
	}
}

// hasUnappliedHandover reports whether an assignment was given a part that its agent has not applied, and that was not
// passed on since.
func (s *stage) hasUnappliedHandover(p *assignment) (unapplied bool) {
	for _, h := range s.record.GetHandovers() {
		gets := int(p.rank) < len(h.GetWeights()) && h.GetWeights()[p.rank] > 0
		switch {
		case h.GetFromRank() == p.rank:
			unapplied = unapplied && gets
		case gets && h.GetRevision() > p.knows:
			unapplied = true
		}
	}
	return unapplied
}

// handOn applies the policy to an assignment that has ended early and whose snapshots are all merged.
func (r *Run) handOn(at clock.Instant, p *assignment) {
	if r.phase == running && r.policy() == reassign {
		r.takeOver(at, p)
		r.tellTakers(at)
		return
	}
	r.writeOff(p)
	r.do(PutStage{r.stage.snapshot()})
	r.sayMissing(at, p)
}

// tellToEnd ends the assignment of an agent that is running but does not do what it should. Its totals are waited for
// as for a lost agent.
func (r *Run) tellToEnd(at clock.Instant, p *assignment, reason string) {
	r.markToldToEnd(p, reason)
	r.markLost(p, reason, at.Add(r.lease()))
	r.sayLost(at, p, reason, "%s", r.consequence(p))
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

// part returns an assignment's current part of the load, from 0 to 1.
func (s *stage) part(p *assignment) float64 {
	parts, sum := make([]float64, len(s.assignments)), 0.0
	for i, q := range s.assignments {
		if q.joined == 0 {
			parts[i] = float64(q.weight)
			sum += parts[i]
		}
	}
	for _, h := range s.record.GetHandovers() {
		passPart(parts, h)
	}
	return parts[p.rank] / sum
}

// passPart applies a handover to the parts.
func passPart(parts []float64, h *spatev1.Handover) {
	given, sum := parts[h.GetFromRank()], 0.0
	parts[h.GetFromRank()] = 0
	for _, w := range h.GetWeights() {
		sum += float64(w)
	}
	for rank, w := range h.GetWeights() {
		parts[rank] += given * float64(w) / sum
	}
}

// mayReturn reports whether any lost assignment may still come back.
func (s *stage) mayReturn(at clock.Instant) bool {
	return slices.ContainsFunc(s.assignments, func(p *assignment) bool {
		return p.isLost() && !p.toldToEnd && at < p.fence
	})
}
