package arrival

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// whole is the stripe of one machine that does all.
var whole = Stripe{own: []uint32{0}, cycle: 1}

// drain returns all arrivals of a schedule.
func drain(t rapid.TB, load *spatev1.LoadPoint, seed uint64, s Stripe) []Arrival {
	t.Helper()
	o, err := NewOpen(load, seed, s)
	if err != nil {
		t.Fatal(err)
	}
	var all []Arrival
	for a, ok := o.Next(); ok; a, ok = o.Next() {
		all = append(all, a)
	}
	if _, ok := o.Next(); ok {
		t.Fatal("a schedule that is over goes on")
	}
	return all
}

// openLoads draws open loops of some hundred arrivals with every combination of warm-up and ends.
var openLoads = rapid.Custom(func(t *rapid.T) *spatev1.LoadPoint {
	load := &spatev1.LoadPoint{
		Rate:           rapid.Float64Range(1, 300).Draw(t, "rate"),
		Arrival:        rapid.SampledFrom([]string{"poisson", "constant"}).Draw(t, "arrival"),
		WarmupRequests: rapid.Uint64Range(0, 100).Draw(t, "warmup_requests"),
	}
	span := rapid.Custom(func(t *rapid.T) *durationpb.Duration {
		return durationpb.New(time.Duration(rapid.Int64Range(1, int64(2*time.Second)).Draw(t, "ns")))
	})
	if rapid.Bool().Draw(t, "warmup by time") {
		load.WarmupDuration = span.Draw(t, "warmup_duration")
	}
	ends := rapid.IntRange(1, 3).Draw(t, "ends")
	if ends&1 != 0 {
		load.Requests = rapid.Uint64Range(1, 300).Draw(t, "requests")
	}
	if ends&2 != 0 {
		load.Duration = span.Draw(t, "duration")
	}
	return load
})

// TestUnionIsOneMachinesSchedule is the promise of the whole package.
func TestUnionIsOneMachinesSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		load, seed := openLoads.Draw(t, "load"), rapid.Uint64().Draw(t, "seed")
		stripes, err := Split(weights.Draw(t, "weights"))
		if err != nil {
			t.Fatal(err)
		}
		var union []Arrival
		for _, s := range stripes {
			own := drain(t, load, seed, s)
			for _, a := range own {
				if !s.Owns(a.Index) {
					t.Fatalf("%d is not the agent's", a.Index)
				}
			}
			if !slices.IsSortedFunc(own, byIndex) {
				t.Fatal("an agent's arrivals are not ascending")
			}
			union = append(union, own...)
		}
		slices.SortFunc(union, byIndex)
		if one := drain(t, load, seed, whole); !slices.Equal(union, one) {
			t.Fatalf("%d arrivals of all agents differ from one machine's %d", len(union), len(one))
		}
	})
}

// byIndex orders arrivals.
func byIndex(a, b Arrival) int { return cmp.Compare(a.Index, b.Index) }

// TestEndsAsDefined builds the schedule again from its definition: endless arrivals first, then warm-up and ends applied to
// the list.
func TestEndsAsDefined(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		load, seed := openLoads.Draw(t, "load"), rapid.Uint64().Draw(t, "seed")
		src, err := newSource(load, nil, seed)
		if err != nil {
			t.Fatal(err)
		}
		p := src()
		offsets := make([]time.Duration, 2500)
		for i := range offsets {
			offsets[i], _ = p.next()
		}
		got := drain(t, load, seed, whole)
		want := dumbSchedule(load, offsets)
		if !slices.Equal(got, want) {
			t.Fatalf("%v\n%d arrivals, want %d", load, len(got), len(want))
		}
		if n, known := Planned(load, whole); known && n != uint64(len(want)) {
			t.Fatalf("%d planned, %d in the schedule", n, len(want))
		}
		measured := uint64(0)
		for _, a := range want {
			if !a.Unmeasured {
				measured++
			}
		}
		if n, known := Owed(load, whole); known && n != measured {
			t.Fatalf("%d owed, %d in the schedule", n, measured)
		}
	})
}

// dumbSchedule applies the definitions to a long enough list of offsets.
func dumbSchedule(load *spatev1.LoadPoint, offsets []time.Duration) []Arrival {
	warmup := load.GetWarmupDuration().AsDuration()
	begin := warmup
	if n := load.GetWarmupRequests(); n > 0 {
		begin = max(begin, offsets[n])
	}
	var list []Arrival
	measured := uint64(0)
	for i, at := range offsets {
		a := Arrival{Index: uint64(i), Offset: at, Unmeasured: uint64(i) < load.GetWarmupRequests() || at < warmup}
		if load.Duration != nil && uint64(i) >= load.GetWarmupRequests() && at >= begin+load.GetDuration().AsDuration() {
			break
		}
		if !a.Unmeasured {
			measured++
		}
		if load.GetRequests() > 0 && measured > load.GetRequests() {
			break
		}
		list = append(list, a)
	}
	return list
}

// TestConstantAgainstRationals compares offsets with exact fractions, for rates and indices of any size.
func TestConstantAgainstRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.OneOf(
			rapid.Float64Range(1e-300, maxRate),
			rapid.Float64Range(1e-3, 100),
			rapid.Map(rapid.IntRange(1, 1e7), func(n int) float64 { return float64(n) }),
			rapid.SampledFrom([]float64{maxRate, 1, 3, 1.0 / 3, 0.1, math.SmallestNonzeroFloat64, 1e-9}),
		).Draw(t, "rate")
		i := rapid.OneOf(rapid.Uint64Range(0, 1e10), rapid.Uint64()).Draw(t, "i")
		got, ok := newConstant(rate).at(i)
		want := new(big.Rat).SetFloat64(rate)
		want.Quo(new(big.Rat).SetInt(new(big.Int).Mul(new(big.Int).SetUint64(i), big.NewInt(1e9))), want)
		want.Add(want, big.NewRat(1, 2))
		ns := new(big.Int).Quo(want.Num(), want.Denom())
		if ok != ns.IsInt64() || ok && int64(got) != ns.Int64() {
			t.Fatalf("arrival %d at %v per second: %d, %v, want %v", i, rate, got, ok, ns)
		}
	})
}

// TestSlowLoadsEnd: a schedule that no time.Duration can hold ends there instead of wrapping.
func TestSlowLoadsEnd(t *testing.T) {
	for _, process := range []string{"constant", "poisson"} {
		load := &spatev1.LoadPoint{Rate: 1e-9, Arrival: process, Requests: 1000}
		all := drain(t, load, 1, whole)
		if len(all) == 0 || len(all) > 30 {
			t.Errorf("%s: %d arrivals of 32 years each", process, len(all))
		}
		for i := 1; i < len(all); i++ {
			if all[i].Offset < all[i-1].Offset {
				t.Errorf("%s: offset %v after %v", process, all[i].Offset, all[i-1].Offset)
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, load := range map[string]*spatev1.LoadPoint{
		"nothing":           nil,
		"no rate":           {Arrival: "constant", Requests: 1},
		"negative rate":     {Rate: -1, Arrival: "constant", Requests: 1},
		"no number":         {Rate: math.NaN(), Arrival: "constant", Requests: 1},
		"too fast":          {Rate: 2e9, Arrival: "constant", Requests: 1},
		"closed loop":       {Rate: 1, Concurrency: 1, Arrival: "constant", Requests: 1},
		"no end":            {Rate: 1, Arrival: "constant"},
		"no process":        {Rate: 1, Requests: 1},
		"unknown process":   {Rate: 1, Arrival: "bursts", Requests: 1},
		"negative duration": {Rate: 1, Arrival: "constant", Duration: durationpb.New(-1)},
		"negative warm-up":  {Rate: 1, Arrival: "constant", Requests: 1, WarmupDuration: durationpb.New(-1)},
		"invalid duration":  {Rate: 1, Arrival: "constant", Duration: &durationpb.Duration{Seconds: 1, Nanos: -1}},
		"too many requests": {Rate: 1, Arrival: "constant", Requests: math.MaxUint64, WarmupRequests: 1},
	} {
		if _, err := NewOpen(load, 1, whole); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestEmptyStripeHasNoArrivals ends at once instead of walking the whole stage.
func TestEmptyStripeHasNoArrivals(t *testing.T) {
	none, err := NewStripe([]uint32{1, 0}, 1)
	if err != nil {
		t.Fatal(err)
	}
	load := &spatev1.LoadPoint{Rate: 1e7, Arrival: "poisson", Duration: durationpb.New(1e6 * time.Second)}
	if all := drain(t, load, 1, none); len(all) != 0 {
		t.Fatalf("%d arrivals for weight 0", len(all))
	}
	if n, _ := Owed(&spatev1.LoadPoint{Rate: 1, Requests: 10}, none); n != 0 {
		t.Fatalf("%d owed by weight 0", n)
	}
}
