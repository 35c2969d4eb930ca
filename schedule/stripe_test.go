package schedule

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// stripeWeights draws the weights of 1 to 64 agents, at least one of them positive.
var stripeWeights = rapid.SliceOfN(rapid.Uint32Range(0, 40), 1, 64).
	Filter(func(w []uint32) bool { return slices.Max(w) > 0 })

// dumbOwners returns the owners of a cycle by sorting all items by their exact keys.
func dumbOwners(weights []uint32) []int {
	type keyed struct {
		key  *big.Rat
		rank int
	}
	var all []keyed
	for rank, w := range weights {
		for k := range int64(w) {
			all = append(all, keyed{big.NewRat(2*k+1, 2*int64(w)), rank})
		}
	}
	slices.SortStableFunc(all, func(a, b keyed) int { return a.key.Cmp(b.key) })
	ranks := make([]int, len(all))
	for i, k := range all {
		ranks[i] = k.rank
	}
	return ranks
}

// TestStripesAgainstSortedKeys compares every method with the sorted keys, over several cycles.
func TestStripesAgainstSortedKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ws := stripeWeights.Draw(t, "weights")
		ranks := dumbOwners(ws)
		stripes, err := splitNumbers(ws)
		if err != nil {
			t.Fatal(err)
		}
		for rank, s := range stripes {
			alone, err := NewStripe(ws, rank)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(alone.own, s.own) || alone.cycle != s.cycle {
				t.Fatalf("rank %d: alone %v, with the others %v", rank, alone, s)
			}
			if s.Empty() != (ws[rank] == 0) {
				t.Fatalf("rank %d of weight %d is empty: %v", rank, ws[rank], s.Empty())
			}
			checkStripe(t, s, ranks, rank)
		}
	})
}

// TestPatternsAgainstSortedKeys: Owner returns the owners of the sorted keys, over several cycles, and numbers each
// owner's items from 0. The pattern's stripes are NewStripe's.
func TestPatternsAgainstSortedKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ws := stripeWeights.Draw(t, "weights")
		ranks := dumbOwners(ws)
		p, err := NewPattern(ws, nil)
		if err != nil {
			t.Fatal(err)
		}
		seen := make([]uint64, len(ws))
		for k := range uint64(3 * len(ranks)) {
			want := ranks[k%uint64(len(ranks))]
			if rank, number := p.Owner(k); int(rank) != want || number != seen[want] {
				t.Fatalf("item %d is number %d of rank %d, want number %d of rank %d", k, number, rank,
					seen[want], want)
			}
			seen[want]++
		}
		for rank := range ws {
			alone, err := NewStripe(ws, rank)
			got := p.Stripe(uint32(rank))
			if err != nil || !slices.Equal(got.own, alone.own) || got.cycle != alone.cycle {
				t.Fatalf("rank %d: %v by the pattern, %v alone: %v", rank, got, alone, err)
			}
		}
	})
}

// checkStripe compares a stripe with the owners of a cycle.
func checkStripe(t *rapid.T, s Stripe, ranks []int, rank int) {
	below := uint64(0)
	for i := range uint64(3 * len(ranks)) {
		owns := ranks[i%uint64(len(ranks))] == rank
		if s.Has(i) != owns || s.Below(i) != below {
			t.Fatalf("rank %d, number %d: owns %v below %d, want %v and %d", rank, i, s.Has(i), s.Below(i), owns, below)
		}
		if !owns {
			continue
		}
		if got := s.At(below); got != i {
			t.Fatalf("rank %d: item %d is %d, want %d", rank, below, got, i)
		}
		below++
	}
}

// TestEveryBeginningIsInProportion: an item with ideal position x in a cycle of length W has x W items before it, give
// or take half an item per agent. So an agent of weight w has n w/W of the first n numbers, give or take 1/2 +
// (agents/2) w/W.
func TestEveryBeginningIsInProportion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ws := stripeWeights.Draw(t, "weights")
		stripes, err := splitNumbers(ws)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range stripes {
			share := float64(len(s.own)) / float64(s.cycle)
			slack := 0.5 + float64(len(ws))/2*share + 1e-9
			for n := range s.cycle {
				if off := float64(s.Below(n)) - share*float64(n); math.Abs(off) > slack {
					t.Fatalf("%d of the first %d, %.2f off the share %.3f", s.Below(n), n, off, share)
				}
			}
		}
	})
}

func TestKnownPatterns(t *testing.T) {
	for _, c := range []struct {
		weights []uint32
		want    []uint32
	}{
		{[]uint32{5}, []uint32{0}},
		{[]uint32{1, 1}, []uint32{0, 1}},
		{[]uint32{4, 4, 4}, []uint32{0, 1, 2}},
		{[]uint32{3, 1}, []uint32{0, 0, 1, 0}},
		{[]uint32{1, 3}, []uint32{1, 0, 1, 1}},
		{[]uint32{0, 200, 100}, []uint32{1, 2, 1}},
	} {
		lowest, cycle, err := reduce(c.weights)
		if err != nil {
			t.Fatal(err)
		}
		if got := owners(lowest, cycle); !slices.Equal(got, c.want) {
			t.Errorf("weights %v make %v, want %v", c.weights, got, c.want)
		}
	}
}

func TestStripesRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		weights []uint32
		rank    int
	}{
		"no weights":         {nil, 0},
		"rank too high":      {[]uint32{1, 2}, 2},
		"rank below 0":       {[]uint32{1, 2}, -1},
		"all weights 0":      {[]uint32{0, 0}, 1},
		"too long a cycle":   {[]uint32{MaxCycle, 1}, 0},
		"sum beyond 32 bits": {[]uint32{math.MaxUint32, math.MaxUint32 - 1}, 0},
	} {
		if _, err := NewStripe(c.weights, c.rank); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := splitNumbers([]uint32{0}); err == nil {
		t.Error("split among no agents")
	}
	if _, err := NewStripe([]uint32{3 << 30, 1 << 30}, 1); err != nil {
		t.Errorf("large weights with a large divisor are small: %v", err)
	}
}

// TestQuantise checks sums, the smallest weight, and that each weight is within 1.5 of its exact share if no agent is
// raised to 1.
func TestQuantise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 50).Draw(t, "capacities")
		total := rapid.Uint32Range(uint32(len(cs)), 5000).Draw(t, "total")
		ws, err := Quantise(cs, total)
		if slices.Max(cs) == 0 {
			if err == nil {
				t.Fatal("split among no agents")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var sum uint32
		var all float64
		for _, c := range cs {
			all += c
		}
		raised := false
		for i, w := range ws {
			sum += w
			if (w == 0) != (cs[i] == 0) {
				t.Fatalf("capacity %v got %d", cs[i], w)
			}
			raised = raised || cs[i] > 0 && cs[i]/all*float64(total) < 1
		}
		if sum != total {
			t.Fatalf("weights sum up to %d, want %d", sum, total)
		}
		for i, w := range ws {
			if exact := cs[i] / all * float64(total); !raised && math.Abs(float64(w)-exact) > 1.5 {
				t.Fatalf("capacity %v got %d, its share is %.2f", cs[i], w, exact)
			}
		}
	})
}

func TestQuantiseKnown(t *testing.T) {
	for _, c := range []struct {
		capacities []float64
		total      uint32
		want       []uint32
	}{
		{[]float64{1, 1, 1}, 10, []uint32{4, 3, 3}},
		{[]float64{0.5, 0, 1.5}, 4, []uint32{1, 0, 3}},
		{[]float64{1e-9, 1e9}, 100, []uint32{1, 99}},
		{[]float64{math.MaxFloat64, math.MaxFloat64}, 6, []uint32{3, 3}},
		{[]float64{1e-9, 1e-9, 1}, 3, []uint32{1, 1, 1}},
	} {
		got, err := Quantise(c.capacities, c.total)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v into %d: %v, %v, want %v", c.capacities, c.total, got, err, c.want)
		}
	}
	for name, c := range map[string][]float64{
		"no agents": nil, "negative": {1, -1}, "no number": {math.NaN(), 1}, "infinite": {math.Inf(1)},
		"too many": {1, 1, 1, 1},
	} {
		if got, err := Quantise(c, 3); err == nil {
			t.Errorf("%s: accepted as %v", name, got)
		}
	}
	if _, err := Quantise([]float64{1}, MaxCycle+1); err == nil {
		t.Error("a total beyond the longest cycle was accepted")
	}
}

// splitNumbers returns the stripes of all agents, in the order of the weights.
func splitNumbers(weights []uint32) ([]Stripe, error) {
	lowest, cycle, err := reduce(weights)
	if err != nil {
		return nil, err
	}
	stripes := make([]Stripe, len(lowest))
	for rank, w := range lowest {
		stripes[rank] = Stripe{own: make([]uint32, 0, w), cycle: cycle}
	}
	for seat, owner := range owners(lowest, cycle) {
		s := &stripes[owner]
		s.own = append(s.own, uint32(seat))
	}
	return stripes, nil
}
