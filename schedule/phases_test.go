package schedule

import (
	"math"
	"math/big"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// rateAt returns the value of a phase, by definition, at a share of its length.
func rateAt(p *spatev1.Phase, share float64) float64 {
	from, to := p.GetFrom(), p.GetFrom()
	if p.To != nil {
		to = p.GetTo()
	}
	return from + (to-from)*share
}

// integrated returns the integral of the rate over the first t seconds of a phase, by Simpson's rule.
func integrated(p *spatev1.Phase, t float64) float64 {
	const panels = 400
	d, sum := p.GetDuration().AsDuration().Seconds(), 0.0
	for i := range panels + 1 {
		weight := []float64{2, 4}[i%2]
		if i == 0 || i == panels {
			weight = 1
		}
		sum += weight * rateAt(p, t/d*float64(i)/panels) * t / panels / 3
	}
	return sum
}

// TestRampsAgainstNumericIntegration: whatever the phases, arrival i of a constant process is where the integral of the
// rate reaches i, and the number of arrivals matches the integral.
func TestRampsAgainstNumericIntegration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		load := &spatev1.LoadPoint{Arrival: "constant"}
		for range rapid.IntRange(1, 5).Draw(t, "phases") {
			load.Phases = append(load.Phases, phaseOf(t, rapid.Float64Range(1e-3, 100), time.Millisecond,
				20*time.Second))
		}
		all, err := NewOpen(load, 0, sole(whole))
		if err != nil {
			t.Skip("all of value 0")
		}
		index, before := uint64(0), 0.0
		begin, last := time.Duration(0), time.Duration(0)
		a, more := all.Next()
		for _, p := range load.Phases {
			end := begin + p.GetDuration().AsDuration()
			for ; more && a.Offset < end; a, more = all.Next() {
				at := (a.Offset - begin).Seconds()
				got := before + integrated(p, at)
				if slack := 1e-7*got + 1e-7; math.Abs(got-float64(index)) > slack || a.Offset < last ||
					a.Index != index {
					t.Fatalf("%v: arrival %d (%+v) after %v is where %v are expected", load.Phases, index, a, last, got)
				}
				index++
				last = a.Offset
			}
			before += integrated(p, p.GetDuration().AsDuration().Seconds())
			begin = end
		}
		if math.Abs(float64(index)-before) > 1+1e-7*before {
			t.Fatalf("%v: %d arrivals, %v expected", load.Phases, index, before)
		}
	})
}

// TestRampIsExact compares linear phases of up to a week with exact fractions. The integral up to half a nanosecond
// plus 2^-50 of the phase before an arrival is below the arrival's number, and up to as much after the arrival above
// it. 2^-50 of the phase's arrivals and 2^-63 of an arrival are allowed.
func TestRampIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rates := rapid.OneOf(rapid.Float64Range(0, 1e6), rapid.Float64Range(0, 1),
			rapid.SampledFrom([]float64{0, 1e-300, 1e7}))
		from, to := rates.Draw(t, "from"), rates.Draw(t, "to")
		length := time.Duration(rapid.Int64Range(1, int64(7*24*time.Hour)).Draw(t, "length"))
		g := newSegment(0, length, from, to)
		mass := g.mass.float()
		if mass == 0 {
			t.Skip("no arrivals")
		}
		u := newExpected(rapid.OneOf(rapid.Float64Range(0, mass), rapid.Just(math.Nextafter(mass, 0))).Draw(t, "u"))
		at := g.at(u)
		slack := new(big.Rat).SetFloat64(0.5000001 + math.Ldexp(float64(length), -50))
		offset := new(big.Rat).SetInt64(int64(at))
		low := integral(from, to, length, new(big.Rat).Sub(offset, slack))
		high := integral(from, to, length, new(big.Rat).Add(offset, slack))
		tolerance := new(big.Rat).SetFloat64(math.Ldexp(mass, -50) + math.Ldexp(1, -63))
		exact := new(big.Rat).SetFloat64(u.float())
		if new(big.Rat).Sub(low, tolerance).Cmp(exact) > 0 || new(big.Rat).Add(high, tolerance).Cmp(exact) < 0 {
			t.Fatalf("%v of %v arrivals at %v of %v", u.float(), mass, at, length)
		}
	})
}

// integral returns the integral of a linear rate over the first ns nanoseconds of a phase: t (from + (to - from) t /
// 2D).
func integral(from, to float64, length time.Duration, ns *big.Rat) *big.Rat {
	d := new(big.Rat).SetInt64(int64(length))
	if ns.Sign() < 0 {
		ns = new(big.Rat)
	}
	if ns.Cmp(d) > 0 {
		ns = d
	}
	f, e := new(big.Rat).SetFloat64(from), new(big.Rat).SetFloat64(to)
	mean := new(big.Rat).Quo(ns, new(big.Rat).Add(d, d))
	mean.Mul(mean, e.Sub(e, f)).Add(mean, f)
	return mean.Mul(mean, ns).Quo(mean, new(big.Rat).SetInt64(int64(time.Second)))
}

// TestHoldIsTheConstantRate: one phase with a constant rate has the arrivals of that rate, and the schedule ends with
// the phase.
func TestHoldIsTheConstantRate(t *testing.T) {
	for _, arrival := range []string{"constant", "poisson"} {
		held := drain(t, &spatev1.LoadPoint{
			Arrival: arrival, Phases: []*spatev1.Phase{{From: 70, Duration: durationpb.New(time.Hour)}},
		}, 3, whole)
		rate := drain(t, &spatev1.LoadPoint{Arrival: arrival, Rate: 70, Duration: durationpb.New(time.Hour)}, 3, whole)
		if len(held) != len(rate) {
			t.Fatalf("%s: %d arrivals, want %d", arrival, len(held), len(rate))
		}
		for i := range held {
			if d := held[i].Offset - rate[i].Offset; d < -1 || d > 1 {
				t.Fatalf("%s: arrival %d at %d, want %d", arrival, i, held[i].Offset, rate[i].Offset)
			}
		}
	}
}

// TestNothingArrivesAtRateZero: an arrival that falls on the end of a phase comes after a following phase of rate 0.
func TestNothingArrivesAtRateZero(t *testing.T) {
	second := durationpb.New(time.Second)
	all := drain(t, &spatev1.LoadPoint{Arrival: "constant", Phases: []*spatev1.Phase{
		{From: 0, Duration: second}, {From: 2, Duration: second}, {From: 0, Duration: second},
		{From: 1, Duration: second}, {From: 0, Duration: second},
	}}, 0, whole)
	want := []time.Duration{time.Second, 1500 * time.Millisecond, 3 * time.Second}
	if len(all) != len(want) {
		t.Fatalf("%v, want %v", all, want)
	}
	for i, a := range all {
		if a.Offset != want[i] {
			t.Errorf("arrival %d at %v, want %v", i, a.Offset, want[i])
		}
	}
}

// TestWake compares with a check of each nanosecond. If the value is within rounding of a whole number, both answers
// are right.
func TestWake(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 5
		load := &spatev1.LoadPoint{Concurrency: most}
		for range rapid.IntRange(1, 4).Draw(t, "phases") {
			values := rapid.OneOf(rapid.Float64Range(0.1, most),
				rapid.Map(rapid.IntRange(1, most), func(n int) float64 { return float64(n) }))
			load.Phases = append(load.Phases, phaseOf(t, values, 10, 60))
		}
		s, err := NewStripe([]uint32{2, 3}, rapid.IntRange(0, 1).Draw(t, "rank"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewClosed(load, 1, sole(s))
		if err != nil {
			t.Skip("all of value 0")
		}
		slot := rapid.IntRange(0, c.Slots()-1).Draw(t, "slot")
		elapsed := time.Duration(rapid.Int64Range(0, 300).Draw(t, "elapsed"))
		at, more := c.Wake(slot, elapsed)
		if more {
			if again, still := c.Wake(slot, at); !still || again != at {
				t.Fatalf("awake at %v, then only at %v", at, again)
			}
		}
		u := float64(s.At(uint64(slot)))
		begin := time.Duration(0)
		for _, p := range load.Phases {
			end := begin + p.GetDuration().AsDuration()
			for now := max(begin, elapsed); now < end; now++ {
				share := float64(now-begin) / float64(end-begin)
				value := rateAt(p, share)
				if math.Abs(value-u) < 1e-9 {
					if more && at == now {
						return
					}
					continue
				}
				if value > u {
					if !more || at != now {
						t.Fatalf("slot %v from %v: %v, %v, want %v", u, elapsed, at, more, now)
					}
					return
				}
			}
			begin = end
		}
		if more {
			t.Fatalf("slot %v from %v: %v, want never", u, elapsed, at)
		}
	})
}

// TestWakeUp tests the documented meaning: concurrency is rounded up.
func TestWakeUp(t *testing.T) {
	five, ten := durationpb.New(5*time.Second), durationpb.New(10*time.Second)
	c := closed(t, &spatev1.LoadPoint{Concurrency: 4, Phases: []*spatev1.Phase{
		{From: 0, To: proto.Float64(4), Duration: ten}, {From: 2.5, Duration: ten},
		{From: 4, Duration: five}, {From: 1, Duration: five},
	}}, whole)
	never := time.Duration(-1)
	for _, w := range []struct {
		slot       int
		from, want time.Duration
	}{
		{0, 0, 1}, {1, 0, 2500*time.Millisecond + 1}, {3, 0, 7500*time.Millisecond + 1},
		{3, 8 * time.Second, 8 * time.Second},
		{2, 15 * time.Second, 15 * time.Second}, {3, 10 * time.Second, 20 * time.Second}, {3, 25 * time.Second, never},
		{0, 30*time.Second - 1, 30*time.Second - 1}, {0, 30 * time.Second, never},
	} {
		at, more := c.Wake(w.slot, w.from)
		if !more {
			at = never
		}
		if at != w.want {
			t.Errorf("slot %d from %v: %v, want %v", w.slot, w.from, at, w.want)
		}
	}
	if _, more := c.Next(30*time.Second - 1); !more {
		t.Error("nothing starts before the phases' end")
	}
	if _, more := c.Next(30 * time.Second); more {
		t.Error("something starts at the phases' end")
	}
	if at, more := closed(t, &spatev1.LoadPoint{Concurrency: 1, Requests: 1}, whole).Wake(0,
		time.Hour); at != time.Hour || !more {
		t.Error("a slot without phases sleeps")
	}
}
