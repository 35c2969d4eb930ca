package netlab

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/clock"
)

func newShaper(path Path) *shaper {
	return &shaper{path: path, chance: rand.New(rand.NewPCG(3, 4))}
}

func TestBitsAreSentOneAfterTheOther(t *testing.T) {
	s := newShaper(Path{Delay: 10 * time.Millisecond, Bandwidth: 8e6, Queue: 3000}) // a byte a microsecond
	for i, want := range []struct {
		at      clock.Instant
		arrives time.Duration
		ok      bool
	}{
		{0, 11 * time.Millisecond, true},                                // 1 ms to send, 10 ms on the way
		{0, 12 * time.Millisecond, true},                                // waits for the first
		{0, 13 * time.Millisecond, true},                                //
		{0, 14 * time.Millisecond, true},                                // the queue is full now
		{0, 0, false},                                                   //
		{instant(2 * time.Millisecond), 15 * time.Millisecond, true},    // two have left
		{instant(50 * time.Millisecond), 61 * time.Millisecond, true},   // the line was idle
		{instant(100 * time.Millisecond), 111 * time.Millisecond, true}, //
	} {
		got, ok := s.admit(want.at, 1000, 6)
		if ok != want.ok || ok && got != instant(want.arrives) {
			t.Errorf("packet %d: arrives %v, %v; want %v, %v", i, got, ok, want.arrives, want.ok)
		}
	}
	if want := (Count{Carried: 7, Bytes: 7000, Overflowed: 1}); s.count != want {
		t.Errorf("count %+v, want %+v", s.count, want)
	}
}

func instant(d time.Duration) clock.Instant { return clock.Instant(0).Add(d) }

func TestNothingOvertakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := Path{
			Delay:  time.Duration(rapid.Int64Range(0, 1e8).Draw(t, "delay")),
			Jitter: time.Duration(rapid.Int64Range(0, 1e8).Draw(t, "jitter")),
		}
		s := newShaper(path)
		now, last := clock.Instant(0), clock.Instant(0)
		for _, gap := range rapid.SliceOf(rapid.Int64Range(0, 1e8)).Draw(t, "gaps") {
			now = now.Add(time.Duration(gap))
			arrives, ok := s.admit(now, 100, udp)
			if !ok || arrives < last || arrives < now.Add(path.Delay) ||
				arrives > max(last, now.Add(path.Delay+path.Jitter)) {
				t.Fatalf("sent at %d, arrives at %d (%v), the one before at %d", now, arrives, ok, last)
			}
			last = arrives
		}
	})
}

func TestWhatIsCutVanishes(t *testing.T) {
	s := newShaper(Path{})
	pass := func(protocol byte) bool { _, ok := s.admit(0, 100, protocol); return ok }
	s.noUDP = true
	if pass(udp) || !pass(6) || !pass(1) {
		t.Error("with UDP blocked exactly UDP vanishes")
	}
	s.cut = true
	if pass(udp) || pass(6) {
		t.Error("packets pass a cut")
	}
	s.cut, s.noUDP = false, false
	if !pass(udp) || !pass(6) {
		t.Error("packets vanish after healing")
	}
	if want := (Count{Carried: 4, Bytes: 400, Blocked: 3}); s.count != want {
		t.Errorf("count %+v, want %+v", s.count, want)
	}
}

// TestLossIsTheShareAsked: of 20,000 packets 5 % are lost, within five standard deviations.
func TestLossIsTheShareAsked(t *testing.T) {
	s := newShaper(Path{Loss: 0.05})
	const n = 20_000
	for range n {
		s.admit(0, 100, 6)
	}
	if s.count.Lost < 846 || s.count.Lost > 1154 || s.count.Lost+s.count.Carried != n {
		t.Errorf("%+v of %d, want 1000 lost", s.count, n)
	}
}

// TestStallsAreTheShareAsked: of 20,000 packets far apart 5 % take longer, within five standard deviations.
func TestStallsAreTheShareAsked(t *testing.T) {
	s := newShaper(Path{Delay: time.Millisecond, Stall: 10 * time.Millisecond, Stalls: 0.05})
	stalled, now := 0, clock.Instant(0)
	for range 20_000 {
		now = now.Add(time.Second)
		switch arrives, _ := s.admit(now, 100, 6); arrives.Sub(now) {
		case time.Millisecond:
		case 11 * time.Millisecond:
			stalled++
		default:
			t.Fatalf("a packet took %v", arrives.Sub(now))
		}
	}
	if stalled < 846 || stalled > 1154 {
		t.Errorf("%d stalled, want 1000", stalled)
	}
}
