package schedule

import (
	"fmt"
	"math"
	"slices"
)

// list is a group of a closed loop's slots that an agent got together, with the requests that belong to them.
//
// The stage's slots are the numbers below its concurrency c, and request i belongs to slot i mod c. A ring selects a
// part of the slots of a list: slot j of the new list is slot at(j) of the old one. Requests follow their slots:
// request k of a list of n slots belongs to slot k mod n of the list. So if the new list has n' slots, its request k is
// request (k / n') n + at(k mod n') of the old list. A chain of rings leads from the stage to the list.
//
// Of a list's requests, those from warm on and below cool are measured. A warm-up by time leaves out the first of them,
// and as many more are measured at the end.
type list struct {
	rings  []ring
	slots  uint64
	next   uint64 // first request not started
	end    uint64 // first request that no longer belongs to the list
	index  uint64 // index in the stage of request next
	warm   uint64
	cool   uint64
	warmed uint64 // requests from warm on that a warm-up by time left out
}

// ring selects a part of a list's slots.
type ring struct {
	of    uint64 // slots of that list
	part  Stripe
	slots uint64 // numbers of part below of
}

func newRing(of uint64, part Stripe) ring { return ring{of: of, part: part, slots: part.Below(of)} }

// at returns request k of the part as a request of the list. below returns how many of the list's requests below n
// belong to the part.
func (r *ring) at(k uint64) uint64 {
	around, slot := k/r.slots*r.of, k%r.slots
	if own := r.part.Own(); slot < uint64(len(own)) {
		return around + uint64(own[slot])
	}
	return around + r.part.At(slot)
}

func (r *ring) below(n uint64) uint64 { return n/r.of*r.slots + r.part.Below(n%r.of) }

// at returns request or slot k of the list as a request or slot of the stage.
func (l *list) at(k uint64) uint64 {
	for i := len(l.rings) - 1; i > 0; i-- {
		k = l.rings[i].at(k)
	}
	return l.rings[0].at(k)
}

// setNext makes request k the next one.
func (l *list) setNext(k uint64) {
	l.next = k
	if !l.done() {
		l.index = l.at(k)
	}
}

// done reports whether the list has no requests left.
func (l *list) done() bool { return l.slots == 0 || l.next >= l.end }

// measures returns how many of the list's requests from next on are measured.
func (l *list) measures() uint64 {
	first, end := max(l.next, l.warm), min(l.cool, l.end)
	return end - min(first, end)
}

// measures returns how many requests of all lists are measured.
func measures(lists []list) (n uint64) {
	for i := range lists {
		n += lists[i].measures()
	}
	return n
}

// cut returns the part of a list that a handover gives to one rank.
func (l *list) cut(part Stripe, from, warmed uint64) list {
	r := newRing(l.slots, part)
	n := list{rings: append(slices.Clone(l.rings), r), slots: r.slots, end: l.end}
	if n.slots == 0 {
		return n
	}
	if l.end != math.MaxUint64 {
		n.end = r.below(l.end)
	}
	n.warm, n.cool = r.below(l.warm), r.below(l.cool+warmed)
	n.setNext(r.below(max(from, l.next)))
	return n
}

// division computes the lists of the ranks of a closed loop.
type division struct {
	share       *Share
	concurrency uint64
	limits      *limits
	ranks       map[uint32][]list
}

// lists returns the rank's lists in the order in which the rank got them: first the list by the weights, if it has
// slots by them, then the lists from handovers. Parts without slots, or of a list without remaining requests, are left
// out.
func (s *Share) lists(concurrency uint64, l *limits) []list {
	p := division{share: s, concurrency: concurrency, limits: l, ranks: map[uint32][]list{}}
	p.keep(s.rank)
	for i := range s.handovers {
		p.keep(s.handovers[i].from)
	}
	for i := range s.handovers {
		p.hand(&s.handovers[i])
	}
	return p.ranks[s.rank]
}

// keep starts to track a rank's lists.
func (p *division) keep(rank uint32) {
	if _, known := p.ranks[rank]; known {
		return
	}
	slots := p.share.base
	if rank != p.share.rank {
		slots = p.share.pattern.Stripe(rank)
	}
	r := newRing(p.concurrency, slots)
	if r.slots == 0 {
		p.ranks[rank] = nil
		return
	}
	base := list{rings: []ring{r}, slots: r.slots, end: math.MaxUint64, warm: r.below(p.limits.warmupRequests)}
	base.cool = r.below(p.limits.warmupRequests + p.limits.requests)
	base.setNext(0)
	p.ranks[rank] = []list{base}
}

// hand applies a handover to the tracked ranks.
func (p *division) hand(h *handover) {
	given := slices.Clone(p.ranks[h.from])
	for rank := range p.ranks {
		if !h.pattern.Gives(rank) {
			continue
		}
		part := h.pattern.Stripe(rank)
		for i := range given {
			from, warmed := h.started(i, p.limits.leavesOut())
			if n := given[i].cut(part, from, warmed); !n.done() {
				p.ranks[rank] = append(p.ranks[rank], n)
			}
		}
	}
	for i := range given {
		from, _ := h.started(i, p.limits.leavesOut())
		l := &p.ranks[h.from][i]
		l.end = min(l.end, from)
	}
}

// started returns the first request of the giver's list i that is handed over, and how many requests before it a
// warm-up by time left out.
func (h *handover) started(i int, timed bool) (from, warmed uint64) {
	number := func(i int) uint64 {
		if i < len(h.fromItems) {
			return h.fromItems[i]
		}
		return 0
	}
	if !timed {
		return number(i), 0
	}
	from = number(2 * i)
	return from, min(number(2*i+1), from)
}

// checkGiver returns an error if a handover takes slots from the rank itself: slots change hands at once, but the
// rank's requests are in flight.
func (s *Share) checkGiver() error {
	for i := range s.handovers {
		if s.handovers[i].from == s.rank {
			return fmt.Errorf(
				"schedule: handover %d takes slots from this agent, of rank %d: slots are handed over only when their agent is lost",
				i,
				s.rank,
			)
		}
	}
	return nil
}
