package schedule

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// crew are the agents of a closed loop. Some of them are lost.
type crew struct {
	load    *spatev1.LoadPoint
	weights []uint32
	agents  []*Closed
	lost    []bool
	heard   []int // handovers
	all     []*spatev1.Handover
	// What counts of each agent. Of a lost agent only what it had started by its last delivered snapshot counts.
	counts   [][]Arrival
	snapshot [][]uint64
	taken    []int // how many of its arrivals are in that snapshot
	told     bool
}

// newCrew draws a closed loop and its agents.
func newCrew(t *rapid.T) *crew {
	c := &crew{
		load: &spatev1.LoadPoint{
			Concurrency:    rapid.Uint32Range(1, 24).Draw(t, "concurrency"),
			Requests:       rapid.Uint64Range(1, 300).Draw(t, "requests"),
			WarmupRequests: rapid.SampledFrom([]uint64{0, 1, 50}).Draw(t, "warmup_requests"),
		},
		weights: rapid.SliceOfN(rapid.Uint32Range(1, 6), 2, 5).Draw(t, "weights"),
	}
	switch rapid.IntRange(0, 3).Draw(t, "warm-up by time") {
	case 1:
		c.load.WarmupDuration = durationpb.New(40 * time.Millisecond)
	case 2:
		c.load.WarmupRequests, c.load.WarmupUntilSteady = 0, durationpb.New(time.Second)
	case 3:
		c.load.Stagger = durationpb.New(40 * time.Millisecond)
	}
	if rapid.Bool().Draw(t, "cool-down") {
		c.load.Cooldown = durationpb.New(20 * time.Millisecond)
	}
	for rank := range c.weights {
		a, err := NewClosed(c.load, 1, shareOf(t, c.stripe(rank)))
		if err != nil {
			t.Fatal(err)
		}
		c.agents = append(c.agents, a)
	}
	n := len(c.weights)
	c.lost, c.heard, c.counts, c.snapshot, c.taken = make([]bool, n), make([]int, n), make([][]Arrival, n),
		make([][]uint64, n), make([]int, n)
	return c
}

func (c *crew) stripe(rank int) *spatev1.Stripe {
	return &spatev1.Stripe{Weights: c.weights, Rank: uint32(rank), Handovers: c.all}
}

// lose hands the slots of an agent to all others, whether or not they have heard of earlier handovers. An agent that
// leaves starts nothing more, so that all that it has started counts, and the others get exactly the rest.
func (c *crew) lose(t *rapid.T, rank int, leaves bool) {
	weights := make([]uint32, len(c.agents))
	for q := range c.agents {
		if !c.lost[q] && q != rank {
			weights[q] = rapid.Uint32Range(0, 3).Draw(t, "part")
		}
	}
	if slices.Max(weights) == 0 {
		return
	}
	if leaves {
		c.agents[rank].Leave()
		if a, more := c.agents[rank].Next(time.Hour); more {
			t.Fatalf("agent %d starts request %d after it has left", rank, a.Index)
		}
		c.snapshot[rank], _ = c.agents[rank].Started()
		c.taken[rank] = len(c.counts[rank])
	}
	c.lost[rank] = true
	c.counts[rank] = c.counts[rank][:c.taken[rank]]
	c.all = append(c.all, &spatev1.Handover{FromRank: uint32(rank), Weights: weights, FromItems: c.snapshot[rank]})
}

// step lets something happen to an agent.
func (c *crew) step(t *rapid.T, rank int, now time.Duration) {
	if c.lost[rank] {
		return
	}
	switch rapid.IntRange(0, 9).Draw(t, "what") {
	case 0:
		c.lose(t, rank, rapid.Bool().Draw(t, "leaves"))
	case 1, 2:
		c.snapshot[rank], _ = c.agents[rank].Started()
		c.taken[rank] = len(c.counts[rank])
	case 3, 4:
		if err := c.agents[rank].Revise(shareOf(t, c.stripe(rank))); err != nil {
			t.Fatal(err)
		}
	default:
		for range c.agents[rank].Slots() {
			c.next(rank, now)
		}
	}
}

func (c *crew) next(rank int, now time.Duration) bool {
	a, more := c.agents[rank].Next(now)
	if more {
		c.counts[rank] = append(c.counts[rank], a)
	}
	return more
}

// TestClosedHandsOverExactly: whichever agents are lost and whenever the others hear of it, exactly the requested
// number of measured requests counts, no request counts twice, and unless the warm-up depends on time no request is
// left out.
func TestClosedHandsOverExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCrew(t)
		now := time.Duration(0)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			now += time.Duration(rapid.Int64Range(0, int64(5*time.Millisecond)).Draw(t, "passed"))
			if now > 40*time.Millisecond {
				c.measure(50 * time.Millisecond)
			}
			c.step(t, rapid.IntRange(0, len(c.agents)-1).Draw(t, "agent"), now)
		}
		c.measure(now + 1)
		c.finish(t, now)
		c.check(t)
	})
}

// measure begins to measure, once.
func (c *crew) measure(from time.Duration) {
	for _, a := range c.agents {
		if !c.told {
			a.Measure(from)
		}
	}
	c.told = true
}

// finish lets all remaining agents hear of all handovers, and continue until none has anything to start.
func (c *crew) finish(t *rapid.T, now time.Duration) {
	slots, starts := 0, []time.Duration{}
	for rank, a := range c.agents {
		if c.lost[rank] {
			continue
		}
		if err := a.Revise(shareOf(t, c.stripe(rank))); err != nil {
			t.Fatal(err)
		}
		slots += a.Slots()
		for slot := range a.Slots() {
			at, _ := a.Wake(slot, 0)
			starts = append(starts, at)
		}
		for at := now; c.next(rank, at); at += time.Millisecond {
		}
	}
	if slots != int(c.load.Concurrency) {
		t.Fatalf("%d slots, want %d", slots, c.load.Concurrency)
	}
	slices.Sort(starts)
	for u, at := range starts {
		if want := c.load.GetStagger().AsDuration() * time.Duration(u) / time.Duration(slots); at != want {
			t.Fatalf("slot %d of all agents starts at %v, want %v", u, at, want)
		}
	}
}

func (c *crew) check(t *rapid.T) {
	seen, measured := map[uint64]bool{}, uint64(0)
	for rank, all := range c.counts {
		for _, a := range all {
			if seen[a.Index] {
				t.Fatalf("request %d counts twice, of %d the second time; handovers %v", a.Index, rank, c.all)
			}
			seen[a.Index] = true
			if !a.Unmeasured {
				measured++
			}
			if a.Offset < c.load.GetStagger().AsDuration() && !a.Unmeasured {
				t.Fatalf("request %d is measured at %v, in the stagger", a.Index, a.Offset)
			}
			if a.Index < c.load.WarmupRequests && !a.Unmeasured {
				t.Fatalf("request %d of the warm-up is measured", a.Index)
			}
		}
	}
	if measured != c.load.Requests {
		t.Fatalf("%d requests measured, want %d; handovers %v", measured, c.load.Requests, c.all)
	}
	if c.load.WarmupDuration != nil || c.load.WarmupUntilSteady != nil || c.load.Stagger != nil {
		return
	}
	for i := range c.load.Requests { // requests of the warm-up that are taken over after it are not sent
		if !seen[c.load.WarmupRequests+i] {
			t.Fatalf("request %d was left out; handovers %v", c.load.WarmupRequests+i, c.all)
		}
	}
}

// TestRequestsFollowTheirSlots: a list is handed over twice.
func TestRequestsFollowTheirSlots(t *testing.T) {
	m := &spatev1.Stripe{Weights: []uint32{1, 1, 1}, Handovers: []*spatev1.Handover{
		{FromRank: 1, Weights: []uint32{1, 0, 1}, FromItems: []uint64{3}},
		{FromRank: 2, Weights: []uint32{1}, FromItems: []uint64{1, 1}},
	}}
	// Slots 0, 3 are rank 0's, 1, 4 rank 1's and 2, 5 rank 2's. Of rank 1's list, requests 1, 4, 7, 10, 13, ...,
	// rank 0 gets slot 1 and rank 2 slot 4, after request 7. Of rank 2's lists, of which 2 and 4 are started or
	// another's, rank 0 gets everything.
	c, err := NewClosed(&spatev1.LoadPoint{Concurrency: 6, Requests: 18}, 1, shareOf(t, m))
	if err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for a, more := c.Next(0); more; a, more = c.Next(0) {
		got = append(got, a.Index)
	}
	if want := []uint64{0, 3, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}; !slices.Equal(got, want) || c.Slots() != 6 {
		t.Errorf("%d slots and requests %v, want %v", c.Slots(), got, want)
	}
}

func TestSharesRefuse(t *testing.T) {
	two := []uint32{1, 1}
	give := func(h ...*spatev1.Handover) *spatev1.Stripe {
		return &spatev1.Stripe{Weights: two, Handovers: h}
	}
	for name, c := range map[string]struct {
		stripe *spatev1.Stripe
		said   string
	}{
		"no weights":   {&spatev1.Stripe{}, "no agent has a positive weight"},
		"parts of 0":   {give(&spatev1.Handover{Weights: []uint32{0, 0}}), "no agent has a positive weight"},
		"before start": {give(&spatev1.Handover{Weights: two, FromNs: -1}), "-1ns"},
		"has nothing":  {give(&spatev1.Handover{Weights: two, FromRank: 2}), "rank 2 has nothing"},
		"too late":     {give(&spatev1.Handover{FromRank: 1, Weights: two, FromNs: math.MaxInt64}), "its moment is"},
		"patterns without end": {give(slices.Repeat([]*spatev1.Handover{
			{FromRank: 1, Weights: []uint32{MaxCycle - 1, 1}},
			{FromRank: 1, Weights: []uint32{1, MaxCycle - 1}},
		}, 10)...), "weights of all handovers sum up"},
		"weights without end": {give(&spatev1.Handover{FromRank: 1, Weights: []uint32{MaxCycle: 1}}),
			"1048577 weights"},
		"beyond counting": {give(&spatev1.Handover{Weights: two, FromItems: []uint64{1<<62 + 1}}),
			"too large"},
	} {
		if _, err := NewShare(c.stripe); err == nil || !strings.Contains(err.Error(), c.said) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h := &spatev1.Handover{FromRank: 1, Weights: []uint32{1}}
	s := shareOf(t, give(h))
	for name, m := range map[string]*spatev1.Stripe{
		"another rank":     {Weights: two, Rank: 1, Handovers: []*spatev1.Handover{h}},
		"other weights":    {Weights: []uint32{1, 2}, Handovers: []*spatev1.Handover{h}},
		"fewer handovers":  {Weights: two},
		"another handover": give(&spatev1.Handover{FromRank: 1, Weights: []uint32{1}, FromNs: 1}),
	} {
		if _, err := s.Revised(m); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	load := &spatev1.LoadPoint{Concurrency: 2, Requests: 4}
	if _, err := NewClosed(load, 1, shareOf(t, give(&spatev1.Handover{Weights: two}))); err == nil ||
		!strings.Contains(err.Error(), "only when their agent is lost") {
		t.Errorf("slots taken from a living agent: %v", err)
	}
}

func TestJoined(t *testing.T) {
	m := &spatev1.Stripe{Weights: []uint32{1}, Rank: 1}
	s := shareOf(t, m)
	if from, joined := s.Joined(); !joined || from != 1<<63-1 || s.Changed() {
		t.Errorf("without a part: %v, %v", from, joined)
	}
	m.Handovers = []*spatev1.Handover{{Weights: []uint32{1, 1}, FromNs: 7e9}}
	s, err := s.Revised(m)
	if err != nil {
		t.Fatal(err)
	}
	if from, joined := s.Joined(); !joined || from != 7*time.Second || !s.Changed() {
		t.Errorf("with a part: %v, %v", from, joined)
	}
	first := shareOf(t, &spatev1.Stripe{Weights: []uint32{1}, Handovers: m.Handovers})
	if from, joined := first.Joined(); joined || from != 0 {
		t.Errorf("who was there: %v, %v", from, joined)
	}
}

// TestOwnsDoesNotAllocate walks through a schedule with handovers.
func TestOwnsDoesNotAllocate(t *testing.T) {
	s := shareOf(t, &spatev1.Stripe{Weights: []uint32{3, 1, 2}, Handovers: []*spatev1.Handover{
		{FromRank: 1, Weights: []uint32{1, 0, 2}}, {FromRank: 2, Weights: []uint32{1, 0, 1, 1}},
	}})
	i := uint64(0)
	if n := testing.AllocsPerRun(1000, func() { s.owns(i, time.Duration(i)); i++ }); n != 0 {
		t.Errorf("%v allocations an arrival", n)
	}
}

// An arrival that was returned before arrivals of the warm-up are taken over is still measured, although the schedule
// has gone back to them.
func TestSettleAfterTheWarmupIsTakenOver(t *testing.T) {
	load := &spatev1.LoadPoint{Rate: 10, Arrival: "constant", Requests: 8, WarmupRequests: 4}
	share := shareOf(t, &spatev1.Stripe{Weights: []uint32{1, 1}})
	o, err := NewOpen(load, 1, share)
	if err != nil {
		t.Fatal(err)
	}
	var a Arrival
	for a.Index < 4 {
		a, _ = o.Next()
	}
	more, err := share.Revised(&spatev1.Stripe{Weights: []uint32{1, 1},
		Handovers: []*spatev1.Handover{{FromRank: 1, Weights: []uint32{1}}}})
	if err != nil {
		t.Fatal(err)
	}
	o.Revise(more)
	if !o.Renew() {
		t.Fatal("not renewed")
	}
	if got, within := o.Settle(a); got.Unmeasured || !within {
		t.Errorf("arrival %d is unmeasured %t, within %t", got.Index, got.Unmeasured, within)
	}
}

// The places of a limit are divided as the slots of a closed loop are, before and after agents are lost: all of them,
// each once. An agent that leaves keeps its own until it is gone.
func TestPlacesAreDividedExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Uint32Range(1, 100).Draw(t, "limit")
		weights := rapid.SliceOfN(rapid.Uint32Range(1, 6), 2, 5).Draw(t, "weights")
		var all []*spatev1.Handover
		places := func(rank int) int {
			s := shareOf(t, &spatev1.Stripe{Weights: weights, Rank: uint32(rank), Handovers: all})
			return s.Places(limit)
		}
		for rank := range weights {
			c, err := NewClosed(&spatev1.LoadPoint{Concurrency: limit, Requests: 1}, 1,
				shareOf(t, &spatev1.Stripe{Weights: weights, Rank: uint32(rank)}))
			if err != nil {
				t.Fatal(err)
			}
			if got := places(rank); got != c.Slots() {
				t.Fatalf("rank %d of %v has %d of %d places, but %d slots", rank, weights, got, limit, c.Slots())
			}
		}
		for lost := range len(weights) - 1 { // one after another
			before, left := places(lost), make([]uint32, len(weights))
			copy(left[lost+1:], weights[lost+1:])
			all = append(all, &spatev1.Handover{FromRank: uint32(lost), FromNs: 1e9, Weights: left})
			if got := places(lost); got != before {
				t.Fatalf("rank %d keeps %d of its %d places", lost, got, before)
			}
			sum := 0
			for rank := lost + 1; rank < len(weights); rank++ {
				sum += places(rank)
			}
			if sum != int(limit) {
				t.Fatalf("without ranks up to %d there are %d places, want %d", lost, sum, limit)
			}
		}
	})
}
