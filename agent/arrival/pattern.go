package arrival

// pattern is the owners of all items, and which of its owner's items each is. It takes 8 bytes for each place of a cycle.
type pattern struct {
	weights []uint32 // in lowest terms, by rank
	cycle   uint64
	places  []place
}

// place is a place of a cycle: its owner, and how many places before it the owner has.
type place struct{ rank, number uint32 }

// newPattern returns the pattern of weights that NewStripe takes.
func newPattern(weights []uint32) (*pattern, error) {
	lowest, cycle, err := reduce(weights)
	if err != nil {
		return nil, err
	}
	p := &pattern{weights: lowest, cycle: cycle, places: make([]place, cycle)}
	passed := make([]uint32, len(lowest))
	for i, rank := range owners(lowest, cycle) {
		p.places[i] = place{rank, passed[rank]}
		passed[rank]++
	}
	return p, nil
}

// owner returns whose item k is, and the how-manieth of its owner's items, counted from 0.
func (p *pattern) owner(k uint64) (rank uint32, number uint64) {
	at := p.places[k%p.cycle]
	return at.rank, k/p.cycle*uint64(p.weights[at.rank]) + uint64(at.number)
}

// weight returns the weight of a place, 0 behind the last one.
func (p *pattern) weight(rank uint32) uint32 {
	if int(rank) >= len(p.weights) {
		return 0
	}
	return p.weights[rank]
}

// stripe returns what is one place's.
func (p *pattern) stripe(rank uint32) Stripe {
	own := make([]uint32, 0, p.weight(rank))
	for i, at := range p.places {
		if at.rank == rank {
			own = append(own, uint32(i))
		}
	}
	return Stripe{own: own, cycle: p.cycle}
}

// owners returns the rank that owns each place of a cycle.
//
// Item k of an agent of weight w wants to be at (2k+1)/(2w) of the cycle: in the middle of the k-th of w equal parts. All
// items of all agents are sorted by that, equal ones by rank, and given the places from 0 on. This is Webster's
// (Sainte-Lague's) rule of handing out seats: each cycle gives each agent its weight exactly, and each beginning of it is
// nearly in proportion. The comparison is exact, so every machine gets the same pattern.
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
