package lifecycle_test

import (
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A deliberately naive version of control.proto's rules: who owns an item after all handovers.

// seats are a pattern's owners by item, and for each item the number of earlier items with the same owner.
type seats struct {
	owner []uint32
	place []uint64
}

// seat apportions n items by Webster's method, one at a time: the next item goes to the rank with the largest claim.
func seat(weights []uint32, n int) seats {
	var out seats
	given := make([]uint64, len(weights))
	for range n {
		best := -1
		for p, w := range weights {
			if w > 0 && (best < 0 || (2*given[p]+1)*uint64(weights[best]) < (2*given[best]+1)*uint64(w)) {
				best = p
			}
		}
		out.owner, out.place = append(out.owner, uint32(best)), append(out.place, given[best])
		given[best]++
	}
	return out
}

// holding is an item's position: item k of a list of a place.
type holding struct {
	rank uint32
	list int
	k    uint64
}

// settled returns the position of each of n items after the handovers. For an open loop due returns when item i is due.
// For a closed loop due is nil.
func settled(weights []uint32, handovers []*spatev1.Handover, n int, due func(i int) int64) []holding {
	base := seat(weights, n)
	items := make([]holding, n)
	lists := map[uint32]int{}
	for i := range items {
		items[i] = holding{rank: base.owner[i], k: base.place[i]}
	}
	for rank := range weights {
		lists[uint32(rank)] = 1
	}
	for _, h := range handovers {
		pass(items, lists, h, due)
	}
	return items
}

// pass carries out one handover.
func pass(items []holding, lists map[uint32]int, h *spatev1.Handover, due func(i int) int64) {
	pattern := seat(h.GetWeights(), len(items))
	given := lists[h.GetFromRank()]
	made := map[uint32]int{} // first new list of each place
	for list := range given {
		for rank, w := range h.GetWeights() {
			if w > 0 {
				if list == 0 {
					made[uint32(rank)] = lists[uint32(rank)]
				}
				lists[uint32(rank)]++
			}
		}
	}
	for i, x := range items {
		from := uint64(0)
		if x.list < len(h.GetFromItems()) {
			from = h.GetFromItems()[x.list]
		}
		if x.rank != h.GetFromRank() || due == nil && x.k < from || due != nil && due(i) < h.GetFromNs() {
			continue
		}
		to := pattern.owner[x.k]
		items[i] = holding{rank: to, list: made[to] + x.list, k: pattern.place[x.k]}
	}
}
