package schedule

import (
	"fmt"
	"slices"
	"sort"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Pattern maps each item to its owner and to its number among the owner's items. It is immutable and may be read
// concurrently.
type Pattern struct {
	ranks []uint32 // ranks that have a part, ascending
	*round
}

// round is the cycle of a pattern, with positions in the list of ranks instead of the ranks. Patterns that differ only
// in which ranks have the parts share a round.
type round struct {
	weights []uint32 // in lowest terms, all above 0
	cycle   uint64
	seats   []seat
}

// seat is an item of a cycle: its owner's position in ranks, and how many earlier items of the cycle the owner has.
type seat struct{ owner, before uint32 }

// NewPattern returns the pattern of weights, which must be valid for NewStripe. It shares the round of like, which may
// be nil, if the rounds are the same.
func NewPattern(weights []uint32, like *Pattern) (*Pattern, error) {
	if len(weights) > MaxCycle {
		return nil, fmt.Errorf("schedule: %d weights are more than %d", len(weights), MaxCycle)
	}
	n := 0
	for _, w := range weights {
		if w > 0 {
			n++
		}
	}
	p, parts := &Pattern{ranks: make([]uint32, 0, n)}, make([]uint32, 0, n)
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

// Ranks returns the ranks that have a part, ascending. The caller must not change them.
func (p *Pattern) Ranks() []uint32 { return p.ranks }

// Cycle returns the number of items in a cycle: the sum of the weights in lowest terms.
func (p *Pattern) Cycle() uint64 { return p.cycle }

// SharesRound reports whether two patterns share the memory of their cycle.
func (p *Pattern) SharesRound(other *Pattern) bool { return p.round == other.round }

// Owner returns the rank that owns item k, and the item's number among the owner's items, from 0.
func (p *Pattern) Owner(k uint64) (rank uint32, number uint64) {
	at := p.seats[k%p.cycle]
	return p.ranks[at.owner], k/p.cycle*uint64(p.weights[at.owner]) + uint64(at.before)
}

// Gives reports whether the pattern gives a rank a part.
func (p *Pattern) Gives(rank uint32) bool {
	_, found := slices.BinarySearch(p.ranks, rank)
	return found
}

// Stripe returns the stripe of one rank.
func (p *Pattern) Stripe(rank uint32) Stripe {
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

// owners returns the owner of each item of a cycle.
//
// The ideal position of item k of an agent of weight w is (2k+1)/(2w) of the cycle: the middle of the k-th of w equal
// parts. The items of all agents are sorted by ideal position, ties by rank, and take the seats from 0 on. This is
// Webster's (Sainte-Lague's) method of apportioning seats: each cycle gives each agent exactly its weight, and each
// prefix of a cycle is nearly in proportion. The comparison is exact, so every machine gets the same pattern.
func owners(weights []uint32, cycle uint64) []uint32 {
	q := newQueue(weights)
	seats := make([]uint32, cycle)
	for i := range seats {
		seats[i] = q[0].rank
		q[0].odd += 2
		q.sink(0)
	}
	return seats
}

// item is an agent's next item.
type item struct {
	odd    uint64 // 2k+1
	weight uint64
	rank   uint32
}

// before reports whether a comes before b. It compares odd/weight by cross-multiplication. Both factors are below 2^22.
func (a item) before(b item) bool {
	left, right := a.odd*b.weight, b.odd*a.weight
	return left < right || left == right && a.rank < b.rank
}

// queue is a binary heap of each agent's next item, with the first of them at the root.
type queue []item

// newQueue returns the queue of each agent's first item. Agents of weight 0 have no items.
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

// sink moves the item at i down to its place in the heap.
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

// phase is a span in which a rate or a concurrency changes evenly or is constant. Its end is exclusive.
type phase struct {
	begin, length time.Duration
	from, to      float64
}

// newPhases reads phases, each of which begins at the end of the one before.
func newPhases(list []*spatev1.Phase) (phases []phase) {
	var end time.Duration
	for _, m := range list {
		p := phase{begin: end, length: m.GetDuration().AsDuration(), from: m.GetFrom(), to: m.GetFrom()}
		if m.To != nil {
			p.to = m.GetTo()
		}
		end = p.end()
		phases = append(phases, p)
	}
	return phases
}

// end returns the offset at which the phase ends.
func (p *phase) end() time.Duration { return p.begin + p.length }

// value returns the phase's value at an offset within it. The value is monotone.
func (p *phase) value(at time.Duration) float64 {
	x := float64(at-p.begin) / float64(p.length)
	return p.from + float64((p.to-p.from)*x)
}

// firstAbove returns the first offset from at on at which the phase's value is above u, and false if there is no such
// offset.
func (p *phase) firstAbove(u float64, at time.Duration) (time.Duration, bool) {
	at = max(at, p.begin)
	if p.value(at) > u {
		return at, true
	}
	if p.value(p.end()-1) <= u {
		return 0, false
	}
	// The value rises: not above u at 'at', above u at the last nanosecond.
	n := sort.Search(int(p.end()-1-at), func(i int) bool { return p.value(at+time.Duration(i)) > u })
	return at + time.Duration(n), true
}
