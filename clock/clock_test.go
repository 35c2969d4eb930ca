package clock

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestNowAdvancesWithTheSystemClock(t *testing.T) {
	a := Now()
	m := monotonic()
	b := Now()
	if a > b {
		t.Fatalf("clock went back from %d to %d", a, b)
	}
	// The two readings of the tie were taken one after the other. Allow for a preemption at the start.
	const slack = Instant(50 * time.Millisecond)
	if m < a-slack || m > b+slack {
		t.Fatalf("CLOCK_MONOTONIC %d is not between %d and %d", m, a, b)
	}
}

// The true offset is always within the stated uncertainty, however unevenly the network delays the two ways, and
// however the clocks drift within the bound, which is not mistaken for a clock that stood still.
func TestOffsetIsWithinItsUncertainty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Int64Range(-1e12, 1e12).Draw(t, "offset")
		drift := rapid.Int64Range(-1e6/driftDivisor, 1e6/driftDivisor).Draw(t, "drift in millionths")
		begin := Instant(1e13)
		truth := func(at Instant) int64 { return base + int64(at-begin)*drift/1e6 }
		var e Estimator
		now := begin
		for range rapid.IntRange(1, 20).Draw(t, "samples") {
			there := Instant(rapid.Int64Range(0, 3e8).Draw(t, "there"))
			work := Instant(rapid.Int64Range(0, 1e6).Draw(t, "work"))
			back := Instant(rapid.Int64Range(0, 3e8).Draw(t, "back"))
			received, sent := now+there, now+there+work
			s := Sample{Asked: now, Received: received + Instant(truth(received)),
				Sent: sent + Instant(truth(sent)), Answered: sent + back}
			if !e.Add(s) {
				t.Fatalf("refused %+v", s)
			}
			if e.Leap() != 0 {
				t.Fatalf("a leap of %v", e.Leap())
			}
			now = s.Answered + Instant(rapid.Int64Range(0, 1e10).Draw(t, "pause"))
		}
		o, ok := e.At(now)
		if !ok {
			t.Fatal("no estimate after a sample")
		}
		if wrong := time.Duration(max(o.Nanos-truth(now), truth(now)-o.Nanos)); wrong > o.Uncertainty {
			t.Fatalf("off by %v, said to be within %v", wrong, o.Uncertainty)
		}
		if o.Here(now+Instant(o.Nanos)) != now {
			t.Fatal("Here does not undo the offset")
		}
	})
}

// The bounds of several exchanges together are tighter than those of the best exchange: a fast way there and a fast way
// back may be from different exchanges.
func TestBoundsOfSeveralSamplesAreJoined(t *testing.T) {
	const truth = Instant(1e9)
	var e Estimator
	for _, s := range []Sample{
		{Asked: 0, Received: truth + 1e6, Sent: truth + 1e6, Answered: 101e6}, // 1 ms there, 100 ms back
		{Asked: 0, Received: truth + 100e6, Sent: truth + 100e6, Answered: 101e6},
	} {
		e.Add(s)
	}
	o, _ := e.At(101e6)
	if wrong := time.Duration(o.Nanos - int64(truth)); wrong.Abs() > o.Uncertainty ||
		o.Uncertainty > 2100*time.Microsecond {
		t.Errorf("off by %v, said to be within %v", wrong, o.Uncertainty)
	}
}

// However long a clock stood still between two samples, Leap is never more than that time, and less by no more than the
// samples leave open.
func TestLeapOfAClockThatStoodStill(t *testing.T) {
	const way = 2 * time.Millisecond
	for _, stood := range []time.Duration{0, 3 * time.Millisecond, time.Second, -time.Second, time.Hour} {
		var e Estimator
		truth, now := Instant(1e12), Instant(5e9)
		for range 5 {
			e.Add(Sample{Asked: now, Received: now.Add(way) + truth, Sent: now.Add(way) + truth,
				Answered: now.Add(2 * way)})
			if e.Leap() != 0 {
				t.Errorf("a leap of %v of clocks that run alike", e.Leap())
			}
			now = now.Add(time.Second)
		}
		truth = truth.Add(stood)
		e.Add(Sample{Asked: now, Received: now.Add(way) + truth, Sent: now.Add(way) + truth,
			Answered: now.Add(2 * way)})
		least := max(stood.Abs()-2*way-time.Millisecond, 0)
		if leap := e.Leap(); leap.Abs() > stood.Abs() || leap.Abs() < least || leap != 0 && (leap > 0) != (stood > 0) {
			t.Errorf("a leap of %v of a clock that stood still for %v", leap, stood)
		}
	}
}

// If a clock stood still, earlier samples are void and the next sample is used.
func TestContradictionRestartsTheEstimate(t *testing.T) {
	var e Estimator
	for _, truth := range []Instant{1e9, 61e9} {
		e.Add(Sample{Asked: 0, Received: truth + 1e6, Sent: truth + 1e6, Answered: 2e6})
		o, _ := e.At(2e6)
		if wrong := time.Duration(o.Nanos - int64(truth)); wrong.Abs() > o.Uncertainty {
			t.Errorf("off by %v, said to be within %v", wrong, o.Uncertainty)
		}
	}
}

func TestImpossibleSamplesAreRefused(t *testing.T) {
	for name, s := range map[string]Sample{
		"answered before asked":     {Asked: 10, Received: 5, Sent: 6, Answered: 9},
		"sent before received":      {Asked: 1, Received: 5, Sent: 4, Answered: 9},
		"worked longer than it was": {Asked: 1, Received: 5, Sent: 50, Answered: 9},
	} {
		var e Estimator
		if e.Add(s) {
			t.Errorf("%s: accepted", name)
		}
		if _, ok := e.At(100); ok {
			t.Errorf("%s: left an estimate", name)
		}
	}
}
