package schedule

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
)

// held is an item of a rank's list. Items that were passed on stay in the list but are not live, so that numbers do
// not change.
type held struct {
	item uint64
	live bool
}

// cycleOf returns the owners of the items of a cycle. Package stripe's tests compare them with their definition.
func cycleOf(weights []uint32) []int {
	p, err := NewPattern(weights, nil)
	if err != nil {
		panic(err)
	}
	ranks := make([]int, p.Cycle())
	for k := range ranks {
		rank, _ := p.Owner(uint64(k))
		ranks[k] = int(rank)
	}
	return ranks
}

// dumbOwnersOf hands lists over by definition, item by item. It returns the final rank of each item, given when the
// items are due.
func dumbOwnersOf(m *spatev1.Stripe, due []time.Duration) []int {
	lists := map[int][][]held{}
	base := map[int][]held{}
	ranks := cycleOf(m.GetWeights())
	for i := range due {
		p := ranks[i%len(ranks)]
		base[p] = append(base[p], held{uint64(i), true})
	}
	for p, list := range base {
		lists[p] = [][]held{list}
	}
	for _, h := range m.GetHandovers() {
		ranks, from := cycleOf(h.GetWeights()), int(h.GetFromRank())
		given := lists[from]
		for l := range given {
			parts := map[int][]held{}
			for k, it := range given[l] {
				goes := it.live && due[it.item] >= time.Duration(h.GetFromNs())
				to := ranks[k%len(ranks)]
				parts[to] = append(parts[to], held{it.item, goes})
				given[l][k].live = it.live && !goes
			}
			for to, part := range parts {
				lists[to] = append(lists[to], part)
			}
		}
	}
	owner := make([]int, len(due))
	for i := range owner {
		owner[i] = -1
	}
	for p, own := range lists {
		for _, list := range own {
			for _, it := range list {
				if it.live && owner[it.item] != -1 {
					owner[it.item] = -2 // owned twice
				} else if it.live {
					owner[it.item] = p
				}
			}
		}
	}
	return owner
}

// history is what happens to an open loop's agents: losses, after which others take over, and joins.
type history struct {
	stripe *spatev1.Stripe // with all handovers
	lost   map[uint32]time.Duration
	ranks  uint32
}

// befalls draws a history with moments up to an offset.
func befalls(t *rapid.T, most time.Duration) history {
	ws := rapid.SliceOfN(rapid.Uint32Range(1, 6), 1, 6).Draw(t, "weights")
	h := history{stripe: &spatev1.Stripe{Weights: ws}, lost: map[uint32]time.Duration{}, ranks: uint32(len(ws))}
	for range rapid.IntRange(0, 5).Draw(t, "events") {
		at := time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, "at"))
		if rapid.Bool().Draw(t, "join") {
			h.join(t, at)
		} else {
			h.lose(t, at)
		}
	}
	return h
}

// living returns the ranks that were not lost.
func (h *history) living() (all []uint32) {
	for p := range h.ranks {
		if _, lost := h.lost[p]; !lost {
			all = append(all, p)
		}
	}
	return all
}

// lose hands everything of one rank to some of the others.
func (h *history) lose(t *rapid.T, at time.Duration) {
	living := h.living()
	if len(living) < 2 {
		return
	}
	p := rapid.SampledFrom(living).Draw(t, "lost")
	weights := make([]uint32, h.ranks)
	for _, q := range living {
		if q != p {
			weights[q] = rapid.Uint32Range(0, 4).Draw(t, "part")
		}
	}
	if slices.Max(weights) == 0 {
		weights[living[0]], weights[living[1]] = 1, 1
		weights[p] = 0
	}
	h.lost[p] = at
	h.stripe.Handovers = append(h.stripe.Handovers, &spatev1.Handover{FromRank: p, Weights: weights, FromNs: int64(at)})
}

// join gives a new rank a part of every other rank's list.
func (h *history) join(t *rapid.T, at time.Duration) {
	part := rapid.Uint32Range(1, 3).Draw(t, "part of the new")
	for _, p := range h.living() {
		weights := make([]uint32, h.ranks+1)
		weights[p], weights[h.ranks] = rapid.Uint32Range(0, 4).Draw(t, "kept"), part
		h.stripe.Handovers = append(h.stripe.Handovers, &spatev1.Handover{FromRank: p, Weights: weights,
			FromNs: int64(at)})
	}
	h.ranks++
}

// of returns the stripe of one rank with the first n handovers.
func (h *history) of(rank uint32, n int) *spatev1.Stripe {
	return &spatev1.Stripe{Weights: h.stripe.Weights, Rank: rank, Handovers: h.stripe.Handovers[:n]}
}

// shareOf reads a valid stripe.
func shareOf(t rapid.TB, m *spatev1.Stripe) Share {
	t.Helper()
	s, err := NewShare(m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEachArrivalHasOneOwner compares the owners, after any losses and joins at any moments, with lists that are handed
// over item by item.
func TestEachArrivalHasOneOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := befalls(t, 900)
		due := make([]time.Duration, 300)
		for i := range due {
			due[i] = time.Duration(3 * i)
		}
		want := dumbOwnersOf(h.stripe, due)
		n := len(h.stripe.Handovers)
		for p := range h.ranks {
			s := shareOf(t, h.of(p, n))
			for i, at := range due {
				if s.owns(uint64(i), at) != (want[i] == int(p)) {
					t.Fatalf("arrival %d at %v: rank %d owns it: %v; the definition gives it to %d", i, at, p,
						s.owns(uint64(i), at), want[i])
				}
			}
		}
		for i, p := range want {
			if until, lost := h.lost[uint32(max(p, 0))]; p < 0 || lost && due[i] >= until {
				t.Fatalf("arrival %d at %v is of %d, lost at %v", i, due[i], p, until)
			}
		}
	})
}

// drawnOwnersOf draws the rank of each item by definition: by all weights, and by the weights of each handover that
// passes the item on.
func drawnOwnersOf(m *spatev1.Stripe, seed uint64, due []time.Duration) []int {
	random := draw.New(seed, "split")
	drawn := func(sequence, i int, weights []uint32) int {
		ranks := cycleOf(weights)
		return ranks[random.Sub(uint64(sequence)).Below(uint64(i), uint64(len(ranks)))]
	}
	owners := make([]int, len(due))
	for i, at := range due {
		owners[i] = drawn(0, i, m.GetWeights())
		for n, h := range m.GetHandovers() {
			if owners[i] == int(h.GetFromRank()) && at >= time.Duration(h.GetFromNs()) {
				owners[i] = drawn(n+1, i, h.GetWeights())
			}
		}
	}
	return owners
}

// TestEachArrivalIsDrawnOnce is TestEachArrivalHasOneOwner for arrivals that are split at random.
func TestEachArrivalIsDrawnOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, seed := befalls(t, 900), rapid.Uint64().Draw(t, "seed")
		due := make([]time.Duration, 300)
		for i := range due {
			due[i] = time.Duration(3 * i)
		}
		want := drawnOwnersOf(h.stripe, seed, due)
		d := drawsOf(&spatev1.LoadPoint{Split: "random"}, seed)
		for p := range h.ranks {
			s := shareOf(t, h.of(p, len(h.stripe.Handovers)))
			s.draws = d
			for i, at := range due {
				if s.owns(uint64(i), at) != (want[i] == int(p)) {
					t.Fatalf("arrival %d at %v: rank %d owns it: %v; the definition gives it to %d", i, at, p,
						s.owns(uint64(i), at), want[i])
				}
			}
		}
	})
}

// TestLeftCountsTheRest: whatever has been returned and has changed hands, Left is the number of measured arrivals that
// Next would still return.
func TestLeftCountsTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		load, seed := openLoads.Draw(t, "load"), rapid.Uint64Range(0, 5).Draw(t, "seed")
		if load.Phases == nil && rapid.Bool().Draw(t, "counted") {
			load.Requests, load.Duration = rapid.Uint64Range(1, 300).Draw(t, "so many requests"), nil
			load.WarmupDuration, load.WarmupUntilSteady, load.Cooldown = nil, nil, nil
		}
		h := befalls(t, 3*time.Second)
		rank := rapid.Uint32Range(0, h.ranks-1).Draw(t, "rank")
		played := rapid.IntRange(0, 200).Draw(t, "played")
		standing := func() *Open {
			o := revisable(t, load, seed, shareOf(t, h.of(rank, 0)))
			for range played {
				o.Next()
			}
			o.Revise(shareOf(t, h.of(rank, len(h.stripe.Handovers))))
			o.Renew()
			return o
		}
		want, o := uint64(0), standing()
		for a, more := o.Next(); more; a, more = o.Next() {
			if !a.Unmeasured {
				want++
			}
		}
		if got := standing().Left(); got != want {
			t.Fatalf("%d left, want %d", got, want)
		}
	})
}

// player is an agent of an open loop, like the executor plays it. It prepares some arrivals ahead, starts them in time,
// and hears of revisions meanwhile.
type player struct {
	open    *Open
	next    Arrival
	more    bool
	ahead   []Arrival
	started []Arrival
	until   time.Duration // when it is lost
}

// renew applies the revisions that were told.
func (p *player) renew() {
	if p.open.Renew() {
		p.ahead = slices.DeleteFunc(p.ahead, func(a Arrival) bool { _, own := p.open.Settle(a); return !own })
		p.next, p.more = p.open.Next()
	}
}

// play continues until now.
func (p *player) play(now, ahead time.Duration) {
	for p.more && p.next.Offset <= now+ahead {
		p.ahead = append(p.ahead, p.next)
		p.next, p.more = p.open.Next()
	}
	p.ahead = slices.DeleteFunc(p.ahead, func(a Arrival) bool {
		due := a.Offset <= now && a.Offset < p.until
		if settled, within := p.open.Settle(a); due && within {
			p.started = append(p.started, settled)
		}
		return due
	})
}

// TestRevisedWalks lets each agent play a schedule independently and hear of losses and joins at different times:
// givers before the moment, takers at any time. Each arrival is started once, by its owner at that time.
func TestRevisedWalks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		load, seed := openLoads.Draw(t, "load"), rapid.Uint64Range(0, 5).Draw(t, "seed")
		h := befalls(t, 3*time.Second)
		told := time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "told"))
		from := min(told+time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "from")),
			load.GetWarmupUntilSteady().AsDuration())
		alone := schedule(t, load, seed, whole)
		alone.Measure(from)
		all := rest(t, alone)
		ahead := time.Duration(rapid.Int64Range(0, int64(200*time.Millisecond)).Draw(t, "ahead"))
		seen := map[uint64]uint32{}
		for rank := range h.ranks {
			for _, a := range h.playedBy(t, rank, load, seed, ahead, min(told, from), from) {
				if other, twice := seen[a.Index]; twice {
					t.Fatalf("arrival %d at %v was started by %d and %d", a.Index, a.Offset, other, rank)
				}
				seen[a.Index] = rank
				if a.Index >= uint64(len(all)) || a != all[a.Index] {
					t.Fatalf("%+v is not in one machine's schedule of %d", a, len(all))
				}
			}
		}
		for _, a := range all {
			if _, started := seen[a.Index]; !started {
				t.Fatalf("arrival %d at %v of %d was started by no agent", a.Index, a.Offset, len(all))
			}
		}
	})
}

// playedBy returns what a rank starts.
func (h *history) playedBy(
	t *rapid.T, rank uint32, load *spatev1.LoadPoint, seed uint64, ahead, told, from time.Duration,
) []Arrival {
	p := &player{until: math.MaxInt64, open: revisable(t, load, seed, shareOf(t, h.of(rank, 0)))}
	if at, lost := h.lost[rank]; lost {
		p.until = at
	}
	p.next, p.more = p.open.Next()
	times := h.hears(rank, rapid.SliceOfN(rapid.Int64Range(-int64(time.Second), int64(4*time.Second)),
		len(h.stripe.Handovers), len(h.stripe.Handovers)).Draw(t, "late"))
	moments := append([]time.Duration{told}, times...)
	for now := time.Duration(0); now < 20*time.Second; now += 50 * time.Millisecond {
		moments = append(moments, now)
	}
	slices.Sort(moments)
	heard := 0
	for _, now := range moments {
		known := heard
		for known < len(times) && times[known] <= now {
			known++
		}
		if known > heard {
			heard = known
			p.open.Revise(shareOf(t, h.of(rank, known)))
			p.renew()
		}
		if now >= told {
			p.open.Measure(from)
		}
		p.play(now, ahead)
	}
	p.play(math.MaxInt64/2, math.MaxInt64/4)
	return p.started
}

// hears draws when a rank hears of each handover: in order, and before the moments of handovers that take from it. A
// lost rank is told nothing more.
func (h *history) hears(rank uint32, late []int64) []time.Duration {
	times := make([]time.Duration, len(late))
	latest := time.Duration(math.MaxInt64)
	for i := len(late) - 1; i >= 0; i-- {
		m := h.stripe.Handovers[i]
		if m.FromRank == rank {
			latest = min(latest, time.Duration(m.FromNs)-1)
		}
		times[i] = min(time.Duration(m.FromNs+late[i]), latest)
		latest = times[i]
	}
	return times
}

// revisable returns a schedule of a share.
func revisable(t rapid.TB, load *spatev1.LoadPoint, seed uint64, s Share) *Open {
	t.Helper()
	var o *Open
	var err error
	if load.GetReplaySpeed() != 0 {
		o, err = NewReplay(load, seed, traceOf(seed), s)
	} else {
		o, err = NewOpen(load, seed, s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}
