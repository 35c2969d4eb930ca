package lifecycle

import (
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// serverSources returns the sources of server metrics that an agent scrapes. Sources are dealt in turn, by rank, to the
// agents that were there at the start, so that each source has exactly one reader. If the reader is lost, its sources
// are not read again in the stage, because the numbers of two readers could not be ordered.
func (s *stage) serverSources(p *assignment) (sources []uint32) {
	all, readers := len(servermetrics.Sources(s.record.GetStage().GetTarget())), len(s.firstWeights())
	if p.observer || int(p.rank) >= readers {
		return nil
	}
	for source := int(p.rank); source < all; source += readers {
		sources = append(sources, uint32(source))
	}
	return sources
}

// LoadEnded tells the machine that the load of an agent has ended while its totals are not here yet: the agent scrapes
// servers, and waits for the last scrape until no agent sends requests. LoadEnded reports whether the load of all
// agents, observers left out, has ended. The agent asks again until it has. From then on the agent takes nothing over.
// An agent that was given something too late gets true, so that it ends at once and others can take that over.
func (r *Run) LoadEnded(name string, ref *spatev1.AssignmentRef) (all bool) {
	if r.phase != running && r.phase != stopping || !r.stage.concerns(ref) {
		return false
	}
	p := r.assignmentOf(r.agents[name])
	if p == nil || p.observer {
		return false
	}
	p.ended = true
	if r.stage.hasUnappliedHandover(p) {
		return true
	}
	others := r.stage.where(func(p *assignment) bool { return !p.observer && !p.done() && !p.ended })
	return len(others) == 0
}
