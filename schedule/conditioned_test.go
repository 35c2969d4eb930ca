package schedule

import (
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// free returns the load with arrivals that are not conditioned, within a nanosecond: a phase that holds its rate.
func free(load *spatev1.LoadPoint) *spatev1.LoadPoint {
	load = proto.CloneOf(load)
	load.Phases = []*spatev1.Phase{{From: load.GetRate(), Duration: durationpb.New(1 << 62)}}
	return load
}

// TestConditionedRate: 200 Poisson arrivals at 8 a second take 25 s, whatever the seed. Unconditioned ones do not.
func TestConditionedRate(t *testing.T) {
	load := &spatev1.LoadPoint{Rate: 8, Arrival: "poisson", Requests: 200}
	free := free(load)
	var squares float64
	const seeds = 400
	for seed := range uint64(seeds) {
		all := drain(t, load, seed, whole)
		if end := all[len(all)-1].Offset; len(all) != 200 || end != 25*time.Second {
			t.Fatalf("seed %d: %d arrivals, the last at %v, want 200 and 25s", seed, len(all), end)
		}
		all = drain(t, free, seed, whole)
		d := all[len(all)-1].Offset.Seconds() - 25
		squares += d * d
	}
	if sd, want := math.Sqrt(squares/seeds), 25/math.Sqrt(200); math.Abs(sd-want) > 0.2*want {
		t.Errorf("free arrivals end with a standard deviation of %.2f s, want %.2f", sd, want)
	}
}

// conditionedLoads draws loads that are conditioned, with every kind of warm-up that is known in advance.
var conditionedLoads = rapid.Custom(func(t *rapid.T) *spatev1.LoadPoint {
	l := &spatev1.LoadPoint{
		Rate:     rapid.Float64Range(0.1, 1e6).Draw(t, "rate"),
		Arrival:  rapid.SampledFrom([]string{"poisson", "gamma"}).Draw(t, "arrival"),
		Requests: rapid.Uint64Range(1, 2000).Draw(t, "requests"),
	}
	if l.Arrival == "gamma" {
		l.Burstiness = rapid.Float64Range(0.2, 5).Draw(t, "burstiness")
	}
	if rapid.Bool().Draw(t, "warm-up requests") {
		l.WarmupRequests = rapid.Uint64Range(1, 200).Draw(t, "warmup_requests")
	}
	lasts := func(name string) *durationpb.Duration {
		return durationpb.New(time.Duration(rapid.Float64Range(0.1, 300).Draw(t, name) / l.Rate * float64(time.Second)))
	}
	if rapid.Bool().Draw(t, "warm-up by time") {
		l.WarmupDuration = lasts("warmup_duration")
	}
	if rapid.Bool().Draw(t, "cool-down") {
		l.Cooldown = lasts("cooldown")
	}
	return l
})

// sameButForRounding reports whether two arrivals are the same but for the last nanosecond, or 2^-50 of their time:
// conditioned arrivals are rounded once from their sum, unconditioned ones gap by gap.
func sameButForRounding(a, b Arrival) bool {
	return a.Index == b.Index && a.Unmeasured == b.Unmeasured && (a.Offset-b.Offset).Abs() <= 1+a.Offset>>50
}

// TestConditionedSpan: the warm-up is that of unconditioned arrivals. From its end, or from its last arrival if that is
// later, the measured arrivals take n / rate to the nanosecond, with the n-th arrival at the end. The gaps between them
// have the proportions of the unconditioned gaps.
func TestConditionedSpan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		load, seed := conditionedLoads.Draw(t, "load"), rapid.Uint64().Draw(t, "seed")
		got, plain := drain(t, load, seed, whole), drain(t, free(load), seed, whole)
		first := slices.IndexFunc(plain, func(a Arrival) bool { return !a.Unmeasured })
		if !slices.EqualFunc(got[:first], plain[:first], sameButForRounding) {
			t.Fatal("the warm-up is not that of free arrivals")
		}
		begin := load.GetWarmupDuration().AsDuration()
		if first > 0 {
			begin = max(begin, plain[first-1].Offset)
		}
		n := int(load.Requests)
		measured := measuredOf(got)
		if len(measured) != n || measured[0].Index != uint64(first) {
			t.Fatalf("%d measured from %d on, want %d from %d on", len(measured), measured[0].Index, n, first)
		}
		last, span := measured[n-1].Offset, float64(n)/load.Rate*1e9
		if d := float64(last-begin) - span; math.Abs(d) > 1+1e-15*span {
			t.Fatalf("%d arrivals take %v, %v ns too long", n, last-begin, d)
		}
		stretched := float64(last-begin) / float64(plain[first+n-1].Offset-begin)
		for i, a := range measured {
			want := float64(plain[first+i].Offset-begin) * stretched
			if slack := 4 + 4*stretched; math.Abs(float64(a.Offset-begin)-want) > slack {
				t.Fatalf("arrival %d is %v after the start, want %v", a.Index, a.Offset-begin, time.Duration(want))
			}
		}
	})
}

// TestConditionedArrivalsAreUniform: all but the last arrival of a Poisson load are uniform in the span. This is the
// distribution of a Poisson process with a known n-th arrival. Gaps have the distribution of the spacings of n - 1
// uniform instants, 1 - (1 - x/n)^(n-1), which approaches the exponential distribution for large n.
func TestConditionedArrivalsAreUniform(t *testing.T) {
	for _, n := range []uint64{2, 3, 5, 20, 200, 5000} {
		span := float64(n) / slow
		var offsets []float64
		var gaps []float64
		for seed := uint64(0); len(offsets) < 20_000; seed++ {
			points := []float64{}
			for _, a := range drain(t, &spatev1.LoadPoint{Rate: slow, Arrival: "poisson", Requests: n}, seed, whole) {
				points = append(points, a.Offset.Seconds())
			}
			offsets = append(offsets, points[:n-1]...)
			gaps = append(gaps, gapsOf(points)[0]*slow) // one per schedule: gaps of one schedule are dependent
		}
		if d := distance(offsets, func(at float64) float64 { return at / span }); d > significant {
			t.Errorf("%d arrivals: distance %.2f from uniform, at most %.2f", n, d, significant)
		}
		cdf := func(x float64) float64 { return 1 - math.Pow(1-min(x/float64(n), 1), float64(n-1)) }
		if d := distance(gaps, cdf); d > significant {
			t.Errorf("%d arrivals: distance %.2f of the first gap, at most %.2f", n, d, significant)
		}
	}
}

// TestConditionedGaps is TestGapDistribution for conditioned loads of many arrivals.
func TestConditionedGaps(t *testing.T) {
	for name, p := range processes() {
		if p.load.GetArrival() == "constant" || len(p.load.GetPhases()) > 1 {
			continue
		}
		p.load.Phases = nil
		for _, n := range []uint64{200, 1000, 20_000} {
			for seed := range uint64(3) {
				if d := kolmogorovSmirnov(p.arrivals(t, seed, n, unequal(10)), p.cdf); d > significant {
					t.Errorf("%s, %d arrivals, seed %d: distance %.2f, at most %.2f", name, n, seed, d, significant)
				}
			}
		}
	}
}

// TestNotConditioned: loads are not conditioned if they do not end by requests, if the start of their measured part is
// not known, or if they are too long.
func TestNotConditioned(t *testing.T) {
	for name, load := range map[string]*spatev1.LoadPoint{
		"by duration": {Rate: 100, Arrival: "poisson", Duration: durationpb.New(10 * time.Second)},
		"until steady": {Rate: 100, Arrival: "poisson", Requests: 500,
			WarmupUntilSteady: durationpb.New(10 * time.Second)},
		"too long":     {Rate: 1e6, Arrival: "poisson", Requests: mostConditioned + 1},
		"long warm-up": {Rate: 1e6, Arrival: "poisson", Requests: 1000, WarmupDuration: durationpb.New(time.Hour)},
		"too bursty":   {Rate: 100, Arrival: "gamma", Burstiness: 1e-6, Requests: 2},
		"too slow":     {Rate: 1e-9, Arrival: "poisson", Requests: 1000},
	} {
		a, b := schedule(t, load, 3, whole), schedule(t, free(load), 3, whole)
		for range 1000 {
			got, more := a.Next()
			want, goesOn := b.Next()
			if !sameButForRounding(got, want) || more != goesOn {
				t.Errorf("%s: %+v, free arrivals have %+v", name, got, want)
			}
			if !more {
				break
			}
		}
	}
}

// BenchmarkCondition makes the longest conditioned schedules.
func BenchmarkCondition(b *testing.B) {
	for name, load := range map[string]*spatev1.LoadPoint{
		"poisson": {Rate: 1000, Arrival: "poisson", Requests: mostConditioned},
		"gamma-4": {Rate: 1000, Arrival: "gamma", Burstiness: 4, Requests: mostConditioned},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := NewOpen(load, 1, sole(whole)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
