package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// leastJoinLead is how far ahead what a newcomer is given changes hands, at least.
const leastJoinLead = 3 * time.Second

// giveMargin is how long before a part changes hands its giver has to have taken that on: longer than a tick and what
// clocks may differ by, so that a giver that did not is out before it can deliver anything that is another's by then.
const giveMargin = 500 * time.Millisecond

// joinLead leaves givers the time of a silence: whoever is out of reach for less hears of it all the same.
func (r *Run) joinLead() time.Duration { return max(leastJoinLead, r.cfg.Silence+giveMargin+r.lead()) }

// mayJoin says whether agents may join a stage under way. In a closed loop slots stay where they are.
func (r *Run) mayJoin(st *spatev1.Stage) bool {
	return r.phase == running && policyOf(st) == reassign && openLoop(st.GetLoad())
}

// admit lets agents join the stage, one after another: one is assigned a share that has nothing yet, and is given its
// part when it is ready.
func (r *Run) admit(at clock.Instant) {
	st := r.stage.record.GetStage()
	if !r.mayJoin(st) || r.overBy(r.changeFrom(at, r.joinLead())) || len(r.givers(nil)) == 0 {
		return
	}
	for _, a := range r.byName() {
		if r.there(at, a) && a.broken == "" && eligible(a, st.GetRegions()) && r.shareOf(a) == nil && r.mayAsk(at, a) {
			r.invite(at, a)
			return
		}
	}
}

// mostPlaces is how often agents of one name may begin or decline a place in a stage. A place stays in the stage for
// good, with what it was given and what others took over: one that is started anew all the time must not make more and
// more of them.
const mostPlaces = 4

// mayAsk says whether a newcomer is asked to join. The first time that its name has had enough places is told.
func (r *Run) mayAsk(at clock.Instant, a *agent) bool {
	declined := r.stage.declined[a.name()]
	if slices.Contains(declined, a.incarnation) {
		return false
	}
	had := len(declined) + len(r.stage.those(func(p *share) bool { return p.agent.name() == a.name() }))
	if had == mostPlaces {
		r.stage.declined[a.name()] = append(declined, a.incarnation)
		r.notice(at, spatev1.Severity_SEVERITY_WARNING,
			"agent %s is not asked to join stage %d again: %d of its processes were lost, or did not join",
			a.name(), r.stage.ref.GetStageIndex()+1, had)
	}
	return had < mostPlaces
}

// checkJoining looks after newcomers.
func (r *Run) checkJoining(at clock.Instant) {
	switch c := r.joining; {
	case r.phase != running:
	case c == nil:
		r.admit(at)
	case at >= r.joinBy:
		r.dropJoining(at, c.agent, "was not ready in time")
	}
}

// invite hands a newcomer its assignment.
func (r *Run) invite(at clock.Instant, a *agent) {
	s := r.stage
	a.inFlight = 0
	r.joining = &share{
		agent: a, rank: uint32(len(s.places())), weight: weightBeside(a, r.beside(a)), revision: s.ref.GetRevision(),
		knows: s.ref.GetRevision(),
	}
	r.joinBy = at.Add(r.applyTimeout(s.record.GetStage()))
	r.sendAssign(r.joining)
}

// beside are the places whose weights a newcomer's is measured by: those of its region if the plan splits by region.
func (r *Run) beside(a *agent) []*share {
	if len(r.stage.record.GetStage().GetRegions()) > 0 {
		if near := r.stage.those(func(p *share) bool {
			return !p.observer &&
				p.agent.info.GetRegion() == a.info.GetRegion()
		}); len(near) > 0 {
			return near
		}
	}
	return r.stage.places()
}

// givers are the places that a newcomer gets its part from: those of its region if the plan splits by region and it has
// any, or else all.
func (r *Run) givers(c *share) []*share {
	active := func(p *share) bool { return !p.observer && p.active() }
	if c != nil && len(r.stage.record.GetStage().GetRegions()) > 0 {
		if near := r.stage.those(func(p *share) bool {
			return active(p) &&
				p.agent.info.GetRegion() == c.agent.info.GetRegion()
		}); len(near) > 0 {
			return near
		}
	}
	return r.stage.those(active)
}

// join gives a newcomer that is ready its part of every place.
func (r *Run) join(at clock.Instant, c *share) {
	s := r.stage
	givers, from := r.givers(c), max(time.Second, r.changeFrom(at, r.joinLead()))
	if r.phase != running || len(givers) == 0 || r.overBy(from) {
		r.dropJoining(at, c.agent, "came too late to join")
		return
	}
	r.joining = nil
	c.joined, c.covered.next = from, uint32(from/time.Second)
	handovers := shareOut(givers, c)
	s.shares = append(s.shares, c)
	s.enter(c)
	r.enrol(c.agent)
	r.revise(at, from, handovers...)
	r.sendArm(c)
	r.sendMeasure(c)
	r.changed(at, c, true, "", fmt.Sprintf("it takes %s of the load from second %d on", percent(s.part(c)),
		from/time.Second))
}

// shareOut are handovers that give a newcomer the same part of each giver's: its weight's part of the sum of all.
func shareOut(givers []*share, c *share) []*spatev1.Handover {
	sum := uint32(0)
	for _, p := range givers {
		sum += p.weight
	}
	var out []*spatev1.Handover
	for _, p := range givers {
		weights := make([]uint32, c.rank+1)
		weights[p.rank], weights[c.rank] = sum, c.weight
		out = append(out, &spatev1.Handover{FromRank: p.rank, Weights: weights, FromNs: c.joined.Nanoseconds()})
	}
	return out
}

// enrol takes an agent into the run.
func (r *Run) enrol(a *agent) { r.roster = append(r.roster, a) }

// dropJoining goes on without a newcomer, if it is this one. It takes part in the next stage, if it can.
func (r *Run) dropJoining(at clock.Instant, a *agent, reason string) {
	c := r.joining
	if c == nil || c.agent != a {
		return
	}
	r.joining = nil
	r.stage.declined[a.name()] = append(r.stage.declined[a.name()], a.incarnation)
	if a.lost == "" && a.broken == "" {
		r.sendStopTo(c, true, reason)
	}
	if a.broken != "" {
		delete(r.agents, a.name())
	}
	r.notice(at, spatev1.Severity_SEVERITY_INFO, "agent %s does not join stage %d: %s", a.name(),
		r.stage.ref.GetStageIndex()+1, reason)
}
