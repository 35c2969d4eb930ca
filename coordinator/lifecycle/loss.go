package lifecycle

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spate-load/spate/clock"
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

// bears reports whether the stage continues without a share.
func (r *Run) bears(p *share) bool {
	return p.observer || r.policy() != fail && p.totals.GetFailureKind() != spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD
}

// loseShare applies the policy when the agent of a share is lost.
func (r *Run) loseShare(at clock.Instant, p *share, reason string) {
	switch {
	case p.out && r.bears(p): // will be given up anyway
	case r.phase == applying && p.observer:
		r.leaveOut(at, p, "lost: "+reason)
		r.armIfReady(at)
	case p.agent.replaced && r.phase != applying && r.replaceable(p):
		r.replace(at, p, reason)
	case p.observer:
		p.lost, p.fence = reason, r.fenceOf(p.agent)
		r.sayLost(at, p, reason, "its observations are missing from second %d on unless it is back by second %d",
			p.covered.next, r.second(p.fence))
	case r.policy() == fail:
		p.failure = "lost: " + reason
		r.failRun(at, "agent "+p.agent.name()+" lost: "+reason)
	case r.phase == applying:
		r.assignAnew(at, p, reason)
	default:
		r.leave(p, reason, r.fenceOf(p.agent))
		r.sayLost(at, p, reason, "%s", r.outlook(p))
	}
}

// replace gives up the share of a process whose name another process has taken. The old process cannot deliver what is
// missing, and no agent takes the share over, so there is no reason to wait for the end of the lease.
func (r *Run) replace(at clock.Instant, p *share, reason string) {
	r.putOut(p, reason)
	p.fence = at
	r.sayLost(at, p, reason, "%s", r.outlook(p))
	r.giveUpShare(at, p)
}

// replaceable reports whether a share can be given up as soon as its process is known to be gone.
func (r *Run) replaceable(p *share) bool { return r.bears(p) && (p.observer || r.policy() == degrade) }

// leave marks a share as away until its agent comes back. If a handover takes a part from the share without its agent
// knowing, the wait ends before the part changes hands, since then two agents could have it.
func (r *Run) leave(p *share, reason string, fence clock.Instant) {
	p.lost, p.fence = reason, fence
	if gives := r.stage.givesAt(p); gives != 0 {
		p.fence = min(p.fence, gives)
	}
}

// outlook returns, for people, the consequence of a loss.
func (r *Run) outlook(p *share) string {
	missing := fmt.Sprintf("%s of the load is missing from second %d on", percent(r.stage.part(p)), p.covered.next)
	switch {
	case p.out && r.phase == running && r.policy() == reassign:
		return missing + "; the others take it over"
	case p.out:
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
	p := r.shareOf(a)
	if p == nil || !p.away() || p.out || r.phase != running && r.phase != stopping {
		return
	}
	inTime := at < p.fence
	p.lost, p.fence, p.said = "", 0, false
	if inTime {
		r.notice(at, spatev1.Severity_SEVERITY_INFO, "agent %s is back: nothing is missing", a.name())
	} else {
		r.notice(at, spatev1.Severity_SEVERITY_WARNING,
			"agent %s is back after its lease of %v: what it measured until then counts", a.name(), r.lease())
	}
}

// assignAnew assigns a stage that was not armed yet to the remaining agents.
func (r *Run) assignAnew(at clock.Instant, lost *share, reason string) {
	st, revision := r.stage.record.GetStage(), r.stage.ref.GetRevision()
	r.sayLost(at, lost, reason, "the stage is assigned again without it")
	if why := r.call(at, st); why != "" {
		lost.failure = "lost: " + reason
		r.failRun(at, why)
		return
	}
	r.assign(at, st, revision+1)
}

// checkAway decides about shares that are still away at their fence.
func (r *Run) checkAway(at clock.Instant) {
	for _, p := range r.stage.shares {
		if (r.phase == running || r.phase == stopping) && p.away() && at >= p.fence {
			r.decide(at, p)
		}
	}
}

// decide applies the policy to a share that is away beyond its fence: the run fails, others take the share over, or the
// share is given up. It is given up once nothing else is waited for, at the latest StopGrace after its fence.
func (r *Run) decide(at clock.Instant, p *share) {
	over := r.stage.all(func(q *share) bool { return q == p || q.done() || q.away() && at >= q.fence })
	if !p.said {
		r.sayLost(at, p, p.lost, "%s", r.outlook(p))
	}
	switch {
	case r.policy() == fail && !p.observer:
		p.failure = r.lossText(p)
		r.failRun(at, "agent "+p.agent.name()+" "+p.failure)
	case r.phase == running && r.policy() == reassign && !p.observer:
		r.takeOver(at, p)
	case over || p.out || r.stage.givesAt(p) != 0 || at >= p.fence.Add(r.cfg.StopGrace):
		r.giveUpShare(at, p)
	}
}

// giveUpShare gives up a share that is away: what it measures from now on does not count.
func (r *Run) giveUpShare(at clock.Instant, p *share) {
	r.writeOff(p)
	r.do(PutStage{r.stage.snapshot()})
	r.sayMissing(at, p)
	r.dismiss(p, "it was dropped: "+p.failure)
	r.settle(at)
}

// writeOff records what is missing because of a share.
func (r *Run) writeOff(p *share) {
	p.failure = cmp.Or(p.failure, p.totals.GetFailure(), r.lossText(p))
	p.loss = &spatev1.Loss{FromWindow: p.covered.next, Share: r.stage.part(p), UnsentFromWindow: p.unsentFrom()}
	r.incomplete = r.incomplete || !p.observer
}

// unsentFrom returns the first window in which requests of a share were due and never sent, if it is before the first
// window that is missing entirely: the process stalled, and sent its later windows when it resumed. It returns nil if
// there is no such window or it is not known.
func (p *share) unsentFrom() *uint32 {
	from := p.totals.GetUnsentFromNs()
	if p.totals.GetNeverSent() == 0 || p.totals.UnsentFromNs == nil || from < 0 {
		return nil
	}
	window := uint32(min(from/int64(time.Second), math.MaxUint32))
	if window >= p.covered.next {
		return nil
	}
	return &window
}

func (r *Run) lossText(p *share) string {
	if p.out {
		return p.lost
	}
	return "lost: " + p.lost
}

// sayMissing tells followers what is missing for good.
func (r *Run) sayMissing(at clock.Instant, p *share) {
	if p.observer {
		r.notice(at, spatev1.Severity_SEVERITY_WARNING,
			"observer %s is dropped (%s): its observations are missing from second %d on", p.agent.name(), p.failure,
			p.loss.GetFromWindow())
		return
	}
	r.notice(at, spatev1.Severity_SEVERITY_ERROR,
		"agent %s is dropped (%s): %s of the load is missing from second %d on%s",
		p.agent.name(), p.failure, percent(p.loss.GetShare()), p.loss.GetFromWindow(), p.sayUnsent())
}

// sayUnsent returns, for people, what was due before the missing windows and never sent. Empty: nothing.
func (p *share) sayUnsent() string {
	if p.loss.UnsentFromWindow == nil {
		return ""
	}
	return fmt.Sprintf(", and it never sent %d requests, due from second %d on", p.totals.GetNeverSent(),
		p.loss.GetUnsentFromWindow())
}

// cut reports whether the share ended by a failure of its own agent.
func (p *share) cut() bool { return p.totals.GetFailure() != "" && !p.totals.GetStopped() }

// sayCut tells followers, once, that an agent has ended its share early.
func (r *Run) sayCut(at clock.Instant, p *share) {
	if p.said {
		return
	}
	follows := "its part of the load is missing from then on"
	switch {
	case p.observer:
		follows = "its observations are missing from then on"
	case r.phase == running && r.policy() == reassign:
		follows = "the others take its part over"
	}
	r.sayLost(at, p, p.totals.GetFailure(), "%s", follows)
}

// endShare checks whether a share whose snapshots are all merged has done all that it should.
func (r *Run) endShare(at clock.Instant, p *share) {
	if p.totals.GetStopped() && r.phase == running && !p.observer && !p.out {
		r.putOut(p, "was stopped, but not by its run") // else nobody would know of the loss
		if !r.bears(p) {
			r.failShare(at, spatev1.FailureKind_FAILURE_KIND_AGENT, "agent "+p.agent.name()+" "+p.lost)
			return
		}
		r.sayLost(at, p, p.lost, "%s", r.outlook(p))
	}
	switch {
	case p.cut(), p.out && p.totals.GetStopped():
		r.handOn(at, p)
	case r.phase == running && r.stage.owes(p):
		if !r.passOnUnheard(at, p) {
			r.putOut(p, cmp.Or(p.lost, "ended its assignment before it learned of a change"))
			r.handOn(at, p)
		}
	default:
		p.lost, r.unsaved = "", r.unsaved || p.out
	}
}

// owes reports whether a share was given a part that its agent has not applied, and that was not passed on since.
func (s *stage) owes(p *share) (owes bool) {
	if p.observer {
		return false
	}
	for _, h := range s.record.GetHandovers() {
		gets := int(p.rank) < len(h.GetWeights()) && h.GetWeights()[p.rank] > 0
		switch {
		case h.GetFromRank() == p.rank:
			owes = owes && gets
		case gets && h.GetRevision() > p.knows:
			owes = true
		}
	}
	return owes
}

// handOn applies the policy to a share that has ended early and whose snapshots are all merged.
func (r *Run) handOn(at clock.Instant, p *share) {
	if r.phase == running && r.policy() == reassign && !p.observer {
		r.takeOver(at, p)
		return
	}
	r.writeOff(p)
	r.do(PutStage{r.stage.snapshot()})
	r.sayMissing(at, p)
}

// sendOff ends the share of an agent that is running but does not do what it should. Its totals are waited for as for a
// lost agent.
func (r *Run) sendOff(at clock.Instant, p *share, reason string) {
	r.putOut(p, reason)
	r.leave(p, reason, at.Add(r.lease()))
	r.sayLost(at, p, reason, "%s", r.outlook(p))
	r.sendStopTo(p, false, reason)
}

// putOut notes that an agent is told, or should be told, to end its share. The note is in the checkpoint, so that a
// restarted coordinator does not take the share's end for a regular one.
func (r *Run) putOut(p *share, reason string) {
	p.lost, p.out, p.answerBy = reason, true, 0
	r.unsaved = true
}

// dismiss tells the agent of a share that was given up to stop, if the agent can be reached.
func (r *Run) dismiss(p *share, reason string) {
	if p.agent.lost == "" && p.agent.broken == "" && !p.whole() {
		r.sendStopTo(p, true, reason)
	}
}

// leaveOut continues the stage without an observer that is not ready.
func (r *Run) leaveOut(at clock.Instant, p *share, reason string) {
	p.failure = reason
	r.notice(at, spatev1.Severity_SEVERITY_WARNING, "observer %s %s: the stage continues without it",
		p.agent.name(), reason)
	r.dismiss(p, reason)
}

// part returns a share's current part of the load, from 0 to 1.
func (s *stage) part(p *share) float64 {
	if p.observer {
		return 0
	}
	places := s.places()
	parts, sum := make([]float64, len(places)), 0.0
	for i, q := range places {
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

// mayReturn reports whether any share of the load that is away may still come back.
func (s *stage) mayReturn(at clock.Instant) bool {
	return slices.ContainsFunc(s.shares, func(p *share) bool {
		return !p.observer && p.away() && !p.out &&
			at < p.fence
	})
}
