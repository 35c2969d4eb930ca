package lifecycle

import spatev1 "github.com/spate-load/spate/proto/spate/v1"

// LoadEnded takes in that the load of an agent has ended although its totals are not here: it reads servers, and waits
// to read them a last time until nobody sends requests any more. It reports whether that is so: whether the load of all
// agents has ended, observers left out. An agent asks again until it is. From then on it takes nothing over; one that
// owes what it was given too late is to end at once, so that the others can.
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
