package schedule

import (
	"cmp"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
)

// whole is the stripe of a machine that does everything.
var whole, _ = NewStripe([]uint32{1}, 0)

// weights draws the weights of 1 to 64 agents, at least one of them positive.
var weights = rapid.SliceOfN(rapid.Uint32Range(0, 40), 1, 64).Filter(func(w []uint32) bool { return slices.Max(w) > 0 })

// split returns the stripes of all agents, in the order of the weights.
func split(weights []uint32) ([]Stripe, error) {
	stripes := make([]Stripe, len(weights))
	for rank := range stripes {
		var err error
		if stripes[rank], err = NewStripe(weights, rank); err != nil {
			return nil, err
		}
	}
	return stripes, nil
}

// sole returns the share of a stripe without handovers.
func sole(s Stripe) Share {
	return Share{stripe: new(spatev1.Stripe), base: s, changed: math.MaxInt64}
}

// schedule returns a stripe's schedule. A replay uses traceOf(seed).
func schedule(t rapid.TB, load *spatev1.LoadPoint, seed uint64, s Stripe) *Open {
	t.Helper()
	var open *Open
	var err error
	if load.GetReplaySpeed() != 0 {
		open, err = NewReplay(load, seed, traceOf(seed), sole(s))
	} else {
		open, err = NewOpen(load, seed, sole(s))
	}
	if err != nil {
		t.Fatal(err)
	}
	return open
}

// dealtTo reports whether an arrival is a stripe's by definition, in turn or by a draw.
func dealtTo(t rapid.TB, load *spatev1.LoadPoint, seed uint64, s Stripe, i uint64) bool {
	t.Helper()
	if load.GetSplit() == "random" && !s.Empty() {
		i = draw.New(seed, "split").Sub(0).Below(i, s.Cycle())
	}
	return s.Has(i)
}

// drain returns all arrivals of a schedule.
func drain(t rapid.TB, load *spatev1.LoadPoint, seed uint64, s Stripe) []Arrival {
	t.Helper()
	return rest(t, schedule(t, load, seed, s))
}

// rest returns all remaining arrivals of a schedule.
func rest(t rapid.TB, o *Open) []Arrival {
	t.Helper()
	var all []Arrival
	for a, ok := o.Next(); ok; a, ok = o.Next() {
		if settled, more := o.Settle(a); more {
			all = append(all, settled)
		}
	}
	if _, ok := o.Next(); ok {
		t.Fatal("a schedule that is over continues")
	}
	if err := o.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// trace is a list of times.
type trace []time.Duration

func (tr trace) Len() uint64 { return uint64(len(tr)) }

func (tr trace) At(i uint64) (time.Duration, bool) {
	if i >= uint64(len(tr)) {
		return 0, false
	}
	return tr[i], true
}

// traceOf makes a trace of about 10 s with random times, some of which have several rows.
func traceOf(seed uint64) trace {
	r := rand.New(rand.NewPCG(seed, 0))
	tr := make(trace, 4000)
	for i := 1; i < len(tr); i++ {
		tr[i] = tr[i-1] + time.Duration(r.IntN(4)*r.IntN(int(3*time.Millisecond)))
	}
	return tr
}

// spans draws durations up to 2 s.
var spans = rapid.Custom(func(t *rapid.T) *durationpb.Duration {
	return durationpb.New(time.Duration(rapid.Int64Range(1, int64(2*time.Second)).Draw(t, "ns")))
})

// limited draws a load with any combination of warm-up, ends and cool-down, but without an arrival process.
func limited(t *rapid.T, bounded bool) *spatev1.LoadPoint {
	load := new(spatev1.LoadPoint)
	switch rapid.IntRange(0, 4).Draw(t, "warm-up") {
	case 1:
		load.WarmupRequests = rapid.Uint64Range(1, 100).Draw(t, "warmup_requests")
	case 2:
		load.WarmupDuration = spans.Draw(t, "warmup_duration")
	case 3:
		load.WarmupRequests = rapid.Uint64Range(1, 100).Draw(t, "warmup_requests")
		load.WarmupDuration = spans.Draw(t, "warmup_duration")
	case 4:
		load.WarmupUntilSteady = spans.Draw(t, "warmup_until_steady")
	}
	least := 1
	if bounded {
		least = 0
	}
	ends := rapid.IntRange(least, 3).Draw(t, "ends")
	if ends&1 != 0 {
		load.Requests = rapid.Uint64Range(1, 300).Draw(t, "requests")
	}
	if ends&2 != 0 {
		load.Duration = spans.Draw(t, "duration")
	}
	if rapid.Bool().Draw(t, "cooling") {
		load.Cooldown = spans.Draw(t, "cooldown")
	}
	return load
}

// openLoads draws open loops of some hundred arrivals: rates, phases and replays.
var openLoads = rapid.Custom(func(t *rapid.T) *spatev1.LoadPoint {
	rates := rapid.Float64Range(1, 300)
	kind := rapid.SampledFrom([]string{"rate", "phases", "replay"}).Draw(t, "kind")
	load := limited(t, kind != "rate")
	load.Split = rapid.SampledFrom([]string{"", "in_turn", "random"}).Draw(t, "split")
	load.Arrival = rapid.SampledFrom([]string{"poisson", "constant", "gamma"}).Draw(t, "arrival")
	if load.Arrival == "gamma" {
		load.Burstiness = rapid.Float64Range(0.2, 5).Draw(t, "burstiness")
	}
	switch kind {
	case "rate":
		load.Rate = rates.Draw(t, "rate")
	case "phases":
		for range rapid.IntRange(1, 5).Draw(t, "phases") {
			load.Phases = append(load.Phases, phaseOf(t, rates, 5*time.Second, 10*time.Second))
		}
	case "replay":
		load.ReplaySpeed = rapid.SampledFrom([]float64{0.5, 1, 1.7}).Draw(t, "speed")
	}
	return load
})

// phaseOf draws a phase between values, or with 0 on one side.
func phaseOf(t *rapid.T, values *rapid.Generator[float64], least, most time.Duration) *spatev1.Phase {
	p := &spatev1.Phase{
		From:     values.Draw(t, "from"),
		Duration: durationpb.New(time.Duration(rapid.Int64Range(int64(least), int64(most)).Draw(t, "phase"))),
	}
	if rapid.Bool().Draw(t, "changes") {
		p.To = new(values.Draw(t, "to"))
	}
	switch rapid.IntRange(0, 4).Draw(t, "zero") {
	case 3:
		p.From, p.To = 0, new(p.GetFrom())
	case 4:
		p.To = proto.Float64(0)
	}
	return p
}

// TestUnionIsOneMachinesSchedule tests the promise of the whole package.
func TestUnionIsOneMachinesSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		load, seed := openLoads.Draw(t, "load"), rapid.Uint64().Draw(t, "seed")
		stripes, err := split(weights.Draw(t, "weights"))
		if err != nil {
			t.Fatal(err)
		}
		var union []Arrival
		for _, s := range stripes {
			own := drain(t, load, seed, s)
			for _, a := range own {
				if !dealtTo(t, load, seed, s, a.Index) {
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

// TestEndsAsDefined builds the schedule again from its definition: endless arrivals first, then warm-up, ends and
// cool-down applied to the list.
func TestEndsAsDefined(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		load, seed := openLoads.Draw(t, "load"), rapid.Uint64().Draw(t, "seed")
		if load.WarmupUntilSteady != nil {
			t.Skip("see TestMeasureAtAnyTime")
		}
		got := drain(t, load, seed, whole)
		offers, coolFrom := offered(t, load, seed)
		want := dumbSchedule(load, offers, load.Requests, coolFrom,
			dumbWarmup{requests: load.WarmupRequests, until: load.WarmupDuration.AsDuration()})
		if !slices.Equal(got, want) {
			t.Fatalf("%v\n%d arrivals, want %d", load, len(got), len(want))
		}
		if n, known := Quota(load, sole(whole)); known && load.ReplaySpeed == 0 && n != uint64(len(measuredOf(want))) {
			t.Fatalf("quota %d, %d in the schedule", n, len(measuredOf(want)))
		}
	})
}

// TestMeasureAtAnyTime calls Measure once or twice after some arrivals were taken. What these settle to, and what
// follows, matches the definition, as if the warm-up had been known from the start.
func TestMeasureAtAnyTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		load, seed := openLoads.Draw(t, "load"), rapid.Uint64().Draw(t, "seed")
		load.WarmupRequests, load.WarmupDuration = 0, nil
		load.WarmupUntilSteady = spans.Draw(t, "until steady")
		stripes, err := split(weights.Draw(t, "weights"))
		if err != nil {
			t.Fatal(err)
		}
		s := rapid.SampledFrom(stripes).Draw(t, "stripe")
		bound := load.WarmupUntilSteady.AsDuration() + MeasureSlack
		o := schedule(t, load, seed, s)
		var asked []Arrival
		over := false
		for range rapid.IntRange(0, 500).Draw(t, "asked") {
			a, more := o.Next()
			if over = !more; over {
				break
			}
			if asked = append(asked, a); a.Offset >= bound {
				break
			}
		}
		for _, a := range asked {
			if settled, more := o.Settle(a); !settled.Unmeasured || more != (a.Offset < bound) {
				t.Fatalf("%+v settles to %+v, %v before Measure", a, settled, more)
			}
		}
		from := time.Duration(rapid.Int64Range(-1, int64(4*time.Second)).Draw(t, "from"))
		from = rapid.SampledFrom([]time.Duration{from, from, from, bound + time.Hour}).Draw(t, "or late")
		o.Measure(from)
		if rapid.Bool().Draw(t, "moved") {
			if len(asked) > 0 {
				o.Settle(asked[0])
			}
			from += time.Second
			o.Measure(from)
			if o.Renew() && len(asked) > 0 && !over { // the last one is taken back
				asked = asked[:len(asked)-1]
			}
		}
		next := rest(t, o)
		var got []Arrival
		for _, a := range asked {
			if settled, more := o.Settle(a); more {
				got = append(got, settled)
			}
		}
		got = append(got, next...)
		offers, coolFrom := offered(t, load, seed)
		want := slices.DeleteFunc(
			dumbSchedule(load, offers, load.Requests, coolFrom, dumbWarmup{until: min(max(from, 0), bound)}),
			func(a Arrival) bool { return !dealtTo(t, load, seed, s, a.Index) },
		)
		if !slices.Equal(got, want) {
			t.Fatalf("%v, measured from %v, told after %d of %d arrivals, want %d", load, from, len(asked),
				len(got), len(want))
		}
	})
}

// TestMeasureNeverComes: the schedule ends by itself, with nothing measured.
func TestMeasureNeverComes(t *testing.T) {
	for _, rate := range []float64{0.001, 1, 100} {
		load := &spatev1.LoadPoint{
			Rate: rate, Arrival: "poisson", Requests: 10, WarmupUntilSteady: durationpb.New(time.Minute),
			Cooldown: durationpb.New(time.Hour),
		}
		all := drain(t, load, 5, whole)
		for _, a := range all {
			if !a.Unmeasured || a.Offset >= time.Minute+MeasureSlack {
				t.Errorf("rate %v: %+v though it is not known when measuring starts", rate, a)
			}
		}
		if want := rate * 90; float64(len(all)) < want-4*math.Sqrt(want)-1 {
			t.Errorf("rate %v: %d arrivals in 90 s", rate, len(all))
		}
	}
}

// TestMeasureWhileWalking calls Measure from another goroutine.
func TestMeasureWhileWalking(t *testing.T) {
	load := &spatev1.LoadPoint{Rate: 1000, Arrival: "gamma", Burstiness: 0.5, Requests: 10_000,
		WarmupUntilSteady: durationpb.New(10 * time.Second)}
	o := schedule(t, load, 1, whole)
	if _, more := o.Next(); !more {
		t.Fatal("no arrivals")
	}
	var other sync.WaitGroup
	other.Go(func() { o.Measure(5 * time.Second) })
	var all []Arrival
	for range 500 {
		a, _ := o.Next()
		all = append(all, a)
	}
	other.Wait()
	all = append(all, rest(t, o)...)
	if n := len(measuredOf(all)); n != 10_000 {
		t.Fatalf("%d measured, want 10000", n)
	}
}

// measuredOf returns the measured arrivals.
func measuredOf(all []Arrival) []Arrival {
	return slices.DeleteFunc(slices.Clone(all), func(a Arrival) bool { return a.Unmeasured })
}

// offered returns more arrivals than a load of openLoads can have, and the offset at which its cool-down begins by
// itself, 0 if there is none.
func offered(t *rapid.T, load *spatev1.LoadPoint, seed uint64) (offers []Arrival, coolFrom time.Duration) {
	if load.ReplaySpeed != 0 {
		for i, at := range traceOf(seed) {
			offers = append(offers, Arrival{Index: uint64(i),
				Offset: time.Duration(math.Round(float64(at) / load.ReplaySpeed))})
		}
		return offers, offers[len(offers)-1].Offset - load.GetCooldown().AsDuration()
	}
	l, err := limitsOf(load, true, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newProcess(load, newPhases(load.GetPhases()), seed, &l)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(20_000) {
		at, err := p.next()
		if err != nil {
			break
		}
		offers = append(offers, Arrival{Index: i, Offset: at})
	}
	for _, p := range load.GetPhases() {
		coolFrom += p.GetDuration().AsDuration()
	}
	if coolFrom > 0 {
		coolFrom -= load.GetCooldown().AsDuration()
	}
	return offers, coolFrom
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

// TestSlowLoadsEnd: a schedule ends before its offsets would overflow a time.Duration.
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
		"nothing":         nil,
		"no rate":         {Arrival: "constant", Requests: 1},
		"negative rate":   {Rate: -1, Arrival: "constant", Requests: 1},
		"no number":       {Rate: math.NaN(), Arrival: "constant", Requests: 1},
		"too fast":        {Rate: 2e9, Arrival: "constant", Requests: 1},
		"no end":          {Rate: 1, Arrival: "constant"},
		"no process":      {Rate: 1, Requests: 1},
		"unknown process": {Rate: 1, Arrival: "bursts", Requests: 1},
		"unknown split":   {Rate: 1, Arrival: "constant", Requests: 1, Split: "evenly"},
		"phases of warm-up": {Arrival: "constant",
			Phases: []*spatev1.Phase{{From: 1, Duration: durationpb.New(1)}}, WarmupDuration: durationpb.New(1)},
	} {
		if _, err := NewOpen(load, 1, sole(whole)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestEmptyStripeHasNoArrivals: the schedule ends at once instead of walking through the whole stage.
func TestEmptyStripeHasNoArrivals(t *testing.T) {
	none, err := NewStripe([]uint32{1, 0}, 1)
	if err != nil {
		t.Fatal(err)
	}
	load := &spatev1.LoadPoint{Rate: 1e7, Arrival: "poisson", Duration: durationpb.New(1e6 * time.Second)}
	if all := drain(t, load, 1, none); len(all) != 0 {
		t.Fatalf("%d arrivals for weight 0", len(all))
	}
	if n, _ := Quota(&spatev1.LoadPoint{Rate: 1, Requests: 10}, sole(none)); n != 0 {
		t.Fatalf("quota %d by weight 0", n)
	}
}
