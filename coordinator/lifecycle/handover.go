package lifecycle

import (
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// openLoop says whether a load's arrivals have times of their own.
func openLoop(l *spatev1.LoadPoint) bool { return l.GetConcurrency() == 0 }

// takeOver hands what a share still has to do to the others. Whoever could take it may be away too: then it is waited
// for until that is decided.
func (r *Run) takeOver(at clock.Instant, p *share) {
	takers := r.takers(p)
	from := r.changeFrom(at, r.lead())
	switch {
	case len(takers) == 0 && r.stage.mayReturn(at) && !p.whole() && r.stage.givesAt(p) == 0:
		return
	case len(takers) == 0 || openLoop(r.stage.record.GetStage().GetLoad()) && r.overBy(from):
		r.giveUpShare(at, p)
		return
	}
	h, since := r.handoverOf(at, p, takers, from)
	r.writeOff(p)
	p.loss.TakenOverNs = proto.Int64(since.Nanoseconds())
	r.notice(at, spatev1.Severity_SEVERITY_WARNING, "agent %s is given up (%s): %s", p.agent.name(), p.failure,
		takenOver(takers, p, since))
	r.dismiss(p, "others have taken its part over")
	r.revise(at, since, h)
}

// takenOver says who goes on with what, and what is missing.
func takenOver(takers []*share, p *share, since time.Duration) string {
	names := make([]string, len(takers))
	for i, q := range takers {
		names[i] = q.agent.name()
	}
	return fmt.Sprintf("its %s of the load is missing from second %d on, until it is taken over by %s in second %.0f%s",
		percent(p.loss.GetShare()), p.loss.GetFromWindow(), strings.Join(names, " and "), math.Floor(since.Seconds()),
		p.sayUnsent())
}

// handoverOf gives what a share still has to do to others: arrivals from an offset on, or in a closed loop all that it
// has not begun, at once. It returns since when.
func (r *Run) handoverOf(at clock.Instant, p *share, takers []*share, from time.Duration) (*spatev1.Handover,
	time.Duration) {
	h := &spatev1.Handover{FromRank: p.rank, Weights: weightsAt(takers)}
	if openLoop(r.stage.record.GetStage().GetLoad()) {
		h.FromNs = from.Nanoseconds()
		return h, from
	}
	h.FromItems = p.begun
	return h, max(0, at.Sub(r.stage.start))
}

// passOnUnheard hands on what a share was given in a closed loop after its agent had ended it: nothing of that is
// begun, and nothing is missing. It says whether it could.
func (r *Run) passOnUnheard(at clock.Instant, p *share) bool {
	takers := r.takers(p)
	if openLoop(r.stage.record.GetStage().GetLoad()) || len(takers) == 0 || p.totals.GetStopped() {
		return false
	}
	h, since := r.handoverOf(at, p, takers, 0)
	p.lost = ""
	r.notice(at, spatev1.Severity_SEVERITY_INFO,
		"agent %s had ended its share before it heard that it was given more: others do that", p.agent.name())
	r.revise(at, since, h)
	return true
}

// takers are those who can take a share over: the active ones of its region, or else all active ones.
func (r *Run) takers(p *share) []*share {
	active := func(q *share) bool { return q != p && !q.observer && q.active() }
	near := r.stage.those(func(q *share) bool {
		return active(q) &&
			q.agent.info.GetRegion() == p.agent.info.GetRegion()
	})
	if len(near) > 0 {
		return near
	}
	return r.stage.those(active)
}

// weightsAt are the weights of shares at their ranks; others have none.
func weightsAt(shares []*share) []uint32 {
	var out []uint32
	for _, p := range shares {
		for len(out) <= int(p.rank) {
			out = append(out, 0)
		}
		out[p.rank] = p.weight
	}
	return out
}

// changeFrom is the offset of a change that all agents hear of in time: a whole second.
func (r *Run) changeFrom(at clock.Instant, lead time.Duration) time.Duration {
	soonest := max(0, at.Sub(r.stage.start)+lead)
	return time.Duration(math.Ceil(soonest.Seconds())) * time.Second
}

// overBy says whether the stage starts nothing more by then, as far as that is known.
func (r *Run) overBy(offset time.Duration) bool {
	end, known := plans.ExpectedDuration(r.stage.record.GetStage())
	return known && offset >= end
}

// revise adds handovers that count from an offset, and tells all places that are under way.
func (r *Run) revise(at clock.Instant, from time.Duration, handovers ...*spatev1.Handover) {
	s := r.stage
	s.ref = clone(s.ref)
	s.ref.Revision++
	for _, h := range handovers {
		h.Revision = s.ref.GetRevision()
	}
	s.record.Handovers = append(s.record.Handovers, handovers...)
	r.do(PutStage{s.snapshot()})
	for _, p := range s.places() {
		if p.active() {
			p.answerBy = max(at.Add(r.lead()), s.start.Add(from)).Add(r.cfg.Silence)
			r.sendRevise(p)
		}
	}
}

// sendRevise tells an agent its share as it is now.
func (r *Run) sendRevise(p *share) {
	p.revision = r.stage.ref.GetRevision()
	r.send(p, &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Revise{Revise: &spatev1.Revise{
		Ref: r.stage.refTo(p), Stripe: r.stage.stripe(p),
	}}})
}

// agreed says which revision an agent has taken on, by its own word or by what it measured under it.
func (p *share) agreed(revision uint32) {
	if revision > p.revision {
		return // nobody has sent it that
	}
	if p.knows = max(p.knows, revision); p.knows == p.revision {
		p.answerBy = 0
	}
}

// givesAt is shortly before the first part changes hands that a share gives away without having taken that on. 0: there
// is none.
func (s *stage) givesAt(p *share) (at clock.Instant) {
	if p.observer {
		return 0
	}
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

// overdue says whether a part of a share changes hands now, or has, without its agent having taken that on.
func (s *stage) overdue(at clock.Instant, p *share) bool {
	gives := s.givesAt(p)
	return gives != 0 && at >= gives
}

// checkAnswers gives those up who did not take on a change of their share in time. One that did not hear that it gives
// something away is out at once when that changes hands, even if the stage is being stopped: nothing that it measures
// from then on can be counted twice. Others have a silence longer.
func (r *Run) checkAnswers(at clock.Instant) {
	for _, p := range r.stage.places() {
		switch {
		case r.phase == closing || !p.active() || p.agent.absent:
		case r.stage.overdue(at, p):
			r.putOut(p, "did not take on a change of its share before a part of it changed hands")
			r.sayLost(at, p, p.lost, "%s", r.outlook(p))
			r.decide(at, p)
		case r.phase == running && p.answerBy != 0 && at >= p.answerBy:
			r.sendOff(at, p, "did not take on a change of its share in time")
		}
	}
}
