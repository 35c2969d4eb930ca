package lifecycle

import spatev1 "github.com/spate-load/spate/proto/spate/v1"

// LoadEnded tells the machine that the load of an agent has ended while its totals are not here yet: the agent scrapes
// servers, and waits for the last scrape until no agent sends requests. LoadEnded reports whether the load of all
// agents, observers left out, has ended. The agent asks again until it has. From then on the agent takes nothing over.
// An agent that was given something too late gets true, so that it ends at once and others can take that over.
func (r *Run) LoadEnded(name string, ref *spatev1.AssignmentRef) (all bool) {
	if r.phase != running && r.phase != stopping || !r.stage.concerns(ref) {
		return false
	}
	p := r.shareOf(r.agents[name])
	if p == nil || p.observer {
		return false
	}
	p.ended = true
	if r.stage.owes(p) {
		return true
	}
	others := r.stage.those(func(p *share) bool { return !p.observer && !p.done() && !p.ended })
	return len(others) == 0
}
