package arrival

import (
	"fmt"
	"slices"
)

// pattern is the owners of all items, and which of its owner's items each is.
type pattern struct {
	ranks []uint32 // of the places that have a part, ascending
	*round
}

// round is a cycle of a pattern, with numbers in place of ranks. Patterns of many places that differ only in who has
// the parts share one.
type round struct {
	weights []uint32 // in lowest terms, all above 0
	cycle   uint64
	seats   []seat
}

// seat is an item of a cycle: its owner's number, and how many items before it the owner has.
type seat struct{ owner, before uint32 }

// newPattern returns the pattern of weights that NewStripe takes. It shares the round of another one, which may be nil,
// if that is the same.
func newPattern(weights []uint32, like *pattern) (*pattern, error) {
	if len(weights) > MaxCycle {
		return nil, fmt.Errorf("arrival: %d places are more than %d", len(weights), MaxCycle)
	}
	n := 0
	for _, w := range weights {
		if w > 0 {
			n++
		}
	}
	p, parts := &pattern{ranks: make([]uint32, 0, n)}, make([]uint32, 0, n)
	for rank, w := range weights {
		if w > 0 {
			p.ranks, parts = append(p.ranks, uint32(rank)), append(parts, w)
		}
	}
	lowest, cycle, err := reduce(parts)
	switch {
	case err != nil:
		return nil, err
	case like != nil && slices.Equal(like.weights, lowest):
		p.round = like.round
	default:
		p.round = newRound(lowest, cycle)
	}
	return p, nil
}

func newRound(weights []uint32, cycle uint64) *round {
	r := &round{weights: weights, cycle: cycle, seats: make([]seat, cycle)}
	passed := make([]uint32, len(weights))
	for i, owner := range owners(weights, cycle) {
		r.seats[i] = seat{owner, passed[owner]}
		passed[owner]++
	}
	return r
}

// owner returns whose item k is, and the how-manieth of its owner's items, counted from 0.
func (p *pattern) owner(k uint64) (rank uint32, number uint64) {
	at := p.seats[k%p.cycle]
	return p.ranks[at.owner], k/p.cycle*uint64(p.weights[at.owner]) + uint64(at.before)
}

// gives says whether a place has a part.
func (p *pattern) gives(rank uint32) bool {
	_, found := slices.BinarySearch(p.ranks, rank)
	return found
}

// stripe returns what is one place's.
func (p *pattern) stripe(rank uint32) Stripe {
	owner, found := slices.BinarySearch(p.ranks, rank)
	if !found {
		return Stripe{cycle: p.cycle}
	}
	own := make([]uint32, 0, p.weights[owner])
	for i, at := range p.seats {
		if at.owner == uint32(owner) {
			own = append(own, uint32(i))
		}
	}
	return Stripe{own: own, cycle: p.cycle}
}

// owners returns the rank that owns each place of a cycle.
//
// Item k of an agent of weight w wants to be at (2k+1)/(2w) of the cycle: in the middle of the k-th of w equal parts.
// All items of all agents are sorted by that, equal ones by rank, and given the places from 0 on. This is Webster's
// (Sainte-Lague's) rule of handing out seats: each cycle gives each agent its weight exactly, and each beginning of it
// is nearly in proportion. The comparison is exact, so every machine gets the same pattern.
func owners(weights []uint32, cycle uint64) []uint32 {
	q := newQueue(weights)
	places := make([]uint32, cycle)
	for i := range places {
		places[i] = q[0].rank
		q[0].odd += 2
		q.sink(0)
	}
	return places
}

// item is an agent's next item.
type item struct {
	odd    uint64 // 2k+1
	weight uint64
	rank   uint32
}

// before says whether a comes before b: odd/weight is compared by cross-multiplication. Both factors are below 2^22.
func (a item) before(b item) bool {
	left, right := a.odd*b.weight, b.odd*a.weight
	return left < right || left == right && a.rank < b.rank
}

// queue is a binary heap of each agent's next item, the first of all at its root.
type queue []item

// newQueue returns the queue of each agent's first item. Agents of weight 0 have none.
func newQueue(weights []uint32) queue {
	q := make(queue, 0, len(weights))
	for rank, w := range weights {
		if w > 0 {
			q = append(q, item{odd: 1, weight: uint64(w), rank: uint32(rank)})
		}
	}
	for i := len(q)/2 - 1; i >= 0; i-- {
		q.sink(i)
	}
	return q
}

// sink moves the item at i down to where it belongs.
func (q queue) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(q) {
			return
		}
		if right := child + 1; right < len(q) && q[right].before(q[child]) {
			child = right
		}
		if q[i].before(q[child]) {
			return
		}
		q[i], q[child] = q[child], q[i]
		i = child
	}
}
