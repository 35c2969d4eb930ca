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
	// The tie between the two readings was taken one call after the other: allow what a preempted start can cost.
	const slack = Instant(50 * time.Millisecond)
	if m < a-slack || m > b+slack {
		t.Fatalf("CLOCK_MONOTONIC %d is not between %d and %d", m, a, b)
	}
}

// The true offset is always within the stated uncertainty, however unevenly the network delays the two ways.
func TestOffsetIsWithinItsUncertainty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		truth := rapid.Int64Range(-1e12, 1e12).Draw(t, "truth")
		var e Estimator
		now := Instant(1e13)
		for range rapid.IntRange(1, 20).Draw(t, "samples") {
			there := Instant(rapid.Int64Range(0, 3e8).Draw(t, "there"))
			work := Instant(rapid.Int64Range(0, 1e6).Draw(t, "work"))
			back := Instant(rapid.Int64Range(0, 3e8).Draw(t, "back"))
			s := Sample{Asked: now, Received: now + there + Instant(truth)}
			s.Sent = s.Received + work
			s.Answered = now + there + work + back
			if !e.Add(s) {
				t.Fatalf("refused %+v", s)
			}
			now = s.Answered + Instant(rapid.Int64Range(0, 1e9).Draw(t, "pause"))
		}
		o, ok := e.At(now)
		if !ok {
			t.Fatal("no estimate after a sample")
		}
		if wrong := time.Duration(max(o.Nanos-truth, truth-o.Nanos)); wrong > o.Uncertainty {
			t.Fatalf("off by %v, said to be within %v", wrong, o.Uncertainty)
		}
		if o.Here(o.There(now)) != now {
			t.Fatal("There and Here are not each other's inverse")
		}
	})
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
