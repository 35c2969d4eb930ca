package lifecycle

import (
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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

// namesOf returns the names of assignments' agents, for people.
func namesOf(assignments []*assignment) string {
	names := lists.Each(assignments, func(p *assignment) string { return p.agent.name() })
	return words.Shorten(names, 3)
}

// takeOver hands the rest of an assignment to other agents. The caller must call tellTakers next. If all agents that
// could take it are lost but may come back, it waits until that is decided.
func (r *Run) takeOver(at clock.Instant, p *assignment) {
	takers := r.takers(p)
	from := r.changeFrom(at, r.lead())
	switch {
	case len(takers) == 0 && r.stage.mayReturn(at) && !p.whole() && r.stage.givesAt(p) == 0:
		return
	case len(takers) == 0 || openLoop(r.stage.record.GetStage().GetLoad()) && r.overBy(from):
		r.dropAssignment(at, p)
		return
	}
	h, since := r.handoverOf(at, p, takers, from)
	r.writeOff(p)
	p.loss.TakenOverNs = new(since.Nanoseconds())
	r.notice(at, spatev1.Severity_SEVERITY_WARNING, "agent %s is dropped (%s): %s", p.agent.name(), p.failure,
		takenOver(takers, p, since))
	r.stopDropped(p, "other agents have taken its part over")
	r.stage.untold, r.stage.untoldFrom = append(r.stage.untold, h), max(r.stage.untoldFrom, since)
}

// tellTakers tells all agents about the handovers since the last call, in one revision. If a hundred agents are lost
// together, a revision for each would be a hundred messages to each of the others.
func (r *Run) tellTakers(at clock.Instant) {
	s := r.stage
	if len(s.untold) == 0 {
		return
	}
	handovers, from := s.untold, s.untoldFrom
	s.untold, s.untoldFrom = nil, 0
	r.revise(at, from, handovers...)
}

// takenOver returns, for people, which agents take over what, and what is missing.
func takenOver(takers []*assignment, p *assignment, since time.Duration) string {
	return fmt.Sprintf("its %s of the load is missing from second %d on, until it is taken over by %s in second %.0f%s",
		percent(p.loss.GetShare()), p.loss.GetFromWindow(), namesOf(takers), math.Floor(since.Seconds()),
		p.unsentText())
}

// handoverOf returns the handover of the rest of an assignment, and the offset from which it counts. In an open loop it
// covers the arrivals from an offset on, in a closed loop all items not yet begun, at once.
func (r *Run) handoverOf(
	at clock.Instant, p *assignment, takers []*assignment, from time.Duration,
) (*spatev1.Handover, time.Duration) {
	h := &spatev1.Handover{FromRank: p.rank, Weights: weightsAt(takers)}
	if openLoop(r.stage.record.GetStage().GetLoad()) {
		h.FromNs = from.Nanoseconds()
		return h, from
	}
	h.FromItems = p.begun
	return h, max(0, at.Sub(r.stage.start))
}

// passOnUnapplied hands on what an assignment was given in a closed loop after its agent had already ended: none of it
// has begun, and nothing is missing. It reports whether it could.
func (r *Run) passOnUnapplied(at clock.Instant, p *assignment) bool {
	takers := r.takers(p)
	if openLoop(r.stage.record.GetStage().GetLoad()) || len(takers) == 0 || p.totals.GetStopped() {
		return false
	}
	h, since := r.handoverOf(at, p, takers, 0)
	p.lost = ""
	r.notice(at, spatev1.Severity_SEVERITY_INFO,
		"agent %s had ended its assignment before it learned of a handover: other agents take that over",
		p.agent.name())
	r.revise(at, since, h)
	return true
}

// takers returns the assignments that can take an assignment over: the active ones in its region, or else all active
// ones.
func (r *Run) takers(p *assignment) []*assignment {
	active := r.stage.where(func(q *assignment) bool { return q != p && q.active() && !q.agent.leaving })
	return inRegion(active, p.agent.info.GetRegion())
}

// inRegion returns the assignments of a region, or all if it has none of them.
func inRegion(all []*assignment, region string) []*assignment {
	elsewhere := func(p *assignment) bool { return p.agent.info.GetRegion() != region }
	if near := slices.DeleteFunc(slices.Clone(all), elsewhere); len(near) > 0 {
		return near
	}
	return all
}

// weightsAt returns the weights of assignments, indexed by rank. Other ranks have weight 0.
func weightsAt(assignments []*assignment) []uint32 {
	var out []uint32
	for _, p := range assignments {
		for len(out) <= int(p.rank) {
			out = append(out, 0)
		}
		out[p.rank] = p.weight
	}
	return out
}

// changeFrom returns the earliest offset, in whole seconds, of a change that all agents can hear of in time.
func (r *Run) changeFrom(at clock.Instant, lead time.Duration) time.Duration {
	soonest := max(0, at.Sub(r.stage.start)+lead)
	return time.Duration(math.Ceil(soonest.Seconds())) * time.Second
}

// overBy reports whether the stage starts nothing more from an offset on, as far as that is known.
func (r *Run) overBy(offset time.Duration) bool {
	rec := r.stage.record
	st := rec.GetStage()
	if rec.MeasuredFromNs != nil { // the warm-up is as long as that, and not the longest one
		if r.stage.measured == nil {
			r.stage.measured = clone(st)
			r.stage.measured.Load.WarmupUntilSteady = durationpb.New(time.Duration(rec.GetMeasuredFromNs()))
		}
		st = r.stage.measured
	}
	end, known := plans.ExpectedDuration(st)
	return known && offset >= end
}

// revise adds handovers that count from an offset, and tells all active agents of the load. One that has left a closed
// loop starts nothing, whatever the handovers say.
func (r *Run) revise(at clock.Instant, from time.Duration, handovers ...*spatev1.Handover) {
	s := r.stage
	s.ref = clone(s.ref)
	s.ref.Revision++
	for _, h := range handovers {
		h.Revision = s.ref.GetRevision()
	}
	s.record.Handovers = append(s.record.Handovers, handovers...)
	r.do(PutStage{s.snapshot()})
	answerBy := max(at.Add(r.lead()), s.start.Add(from)).Add(r.cfg.Silence)
	for _, p := range s.assignments {
		if p.active() && !p.hasLeft {
			p.answerBy = answerBy
			r.sendRevise(p)
		}
	}
}

// sendRevise sends an agent its current stripe.
func (r *Run) sendRevise(p *assignment) {
	p.revision = r.stage.ref.GetRevision()
	r.send(p, &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Revise{Revise: &spatev1.Revise{
		Ref: r.stage.refTo(p), Stripe: r.stage.stripe(p),
	}}})
}

// agreed notes a revision that an agent has applied, as its answer or its snapshots show.
func (p *assignment) agreed(revision uint32) {
	if revision > p.revision {
		return // it was never sent that revision
	}
	if p.knows = max(p.knows, revision); p.knows == p.revision {
		p.answerBy = 0
	}
}

// givesAt returns an instant shortly before the first handover that takes a part from the assignment and that the
// assignment has not applied. 0: there is none.
func (s *stage) givesAt(p *assignment) (at clock.Instant) {
	for _, h := range s.record.GetHandovers() {
		if h.GetFromRank() != p.rank || h.GetRevision() <= p.knows || h.GetFromNs() == 0 {
			continue
		}
		if from := s.start.Add(time.Duration(h.GetFromNs()) - giveMargin); at == 0 || from < at {
			at = from
		}
	}
	return at
}

// checkAnswers ends the assignments that did not apply a change in time. An assignment that did not apply a handover
// that takes a part from it ends just before the part changes hands, even if the stage is being stopped, so that
// nothing is counted twice. Other assignments have longer, by Silence.
func (r *Run) checkAnswers(at clock.Instant) {
	for _, p := range r.stage.assignments {
		switch gives := r.stage.givesAt(p); {
		case r.phase == closing || !p.active() || p.agent.notBack:
		case gives != 0 && at >= gives:
			r.markToldToEnd(p, "did not apply a change of its assignment before a handover took effect")
			r.sayLost(at, p, p.lost, r.consequence(p))
			r.decide(at, p)
		case r.phase == running && p.answerBy != 0 && at >= p.answerBy:
			r.tellToEnd(at, p, "did not apply a change of its assignment in time")
		}
	}
	r.tellTakers(at)
}
