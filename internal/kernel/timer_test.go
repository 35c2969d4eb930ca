package kernel

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spate-load/spate/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kinds returns all kinds of timers, whichever this system prefers.
func kinds(t testing.TB, ctx context.Context) map[string]*Timer {
	all := map[string]*Timer{"preferred": NewTimer(ctx), "coarse": {ctx: ctx, alarm: newCoarse(ctx)},
		"plain": NewPlainTimer(ctx)}
	t.Cleanup(func() {
		for _, k := range all {
			if err := k.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return all
}

func TestWaitNeverReturnsEarly(t *testing.T) {
	for name, timer := range kinds(t, t.Context()) {
		for _, d := range []time.Duration{0, 1, time.Microsecond, 100 * time.Microsecond, 3 * time.Millisecond} {
			at := clock.Now().Add(d)
			if err := timer.Wait(at); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if early := clock.Until(at); early > 0 {
				t.Errorf("%s: %v early after a wait of %v", name, early, d)
			}
		}
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	all := kinds(t, ctx)
	results := make(chan error)
	for _, timer := range all {
		go func() { results <- timer.Wait(clock.Now().Add(time.Hour)) }()
	}
	cancel()
	for range all {
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	for name, timer := range all {
		if err := timer.Wait(0); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: a wait after the end: %v", name, err)
		}
	}
}

func TestWaitExactlyNeverReturnsEarly(t *testing.T) {
	for name, timer := range kinds(t, t.Context()) {
		for _, d := range []time.Duration{-time.Millisecond, 0, time.Microsecond, lead, 2 * lead} {
			at := clock.Now().Add(d)
			if err := timer.WaitExactly(at); err != nil || clock.Now() < at {
				t.Fatalf("%s: %v, %v early after a wait of %v", name, err, clock.Until(at), d)
			}
		}
	}
}

// Wake ends one wait, whether it comes before or during the wait, and however often it is called.
func TestWake(t *testing.T) {
	for name, timer := range kinds(t, t.Context()) {
		timer.Wake()
		timer.Wake()
		if err := timer.Wait(clock.Now().Add(time.Hour)); !errors.Is(err, ErrWoken) {
			t.Errorf("%s, woken before: %v", name, err)
		}
		for range 200 {
			go timer.Wake()
			if err := timer.WaitExactly(clock.Now().Add(time.Hour)); !errors.Is(err, ErrWoken) {
				t.Fatalf("%s, woken in the wait: %v", name, err)
			}
		}
		if err := timer.Wait(clock.Now().Add(time.Millisecond)); err != nil {
			t.Errorf("%s, not woken: %v", name, err)
		}
	}
}

func TestSystemOffersThePreciseTimer(t *testing.T) {
	a, err := newPrecise(t.Context())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("no precise timer on this system")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkLateness shows how late each kind wakes at 10,000 instants a second, asleep and awake.
func BenchmarkLateness(b *testing.B) {
	for name, timer := range kinds(b, b.Context()) {
		for how, wait := range map[string]func(clock.Instant) error{"Wait": timer.Wait, "WaitAwake": timer.WaitAwake} {
			b.Run(name+"/"+how, func(b *testing.B) {
				b.ReportAllocs()
				late := make([]time.Duration, 0, b.N)
				at := clock.Now()
				for range b.N {
					at = at.Add(100 * time.Microsecond)
					if err := wait(at); err != nil {
						b.Fatal(err)
					}
					late = append(late, clock.Now().Sub(at))
				}
				report(b, late)
			})
		}
	}
}

// BenchmarkArmedStart shows how late a start is that was armed 20 ms before: with Wait, and with WaitExactly.
func BenchmarkArmedStart(b *testing.B) {
	timer := NewTimer(b.Context())
	defer timer.Close()
	for name, wait := range map[string]func(clock.Instant) error{"Wait": timer.Wait, "WaitExactly": timer.WaitExactly} {
		b.Run(name, func(b *testing.B) {
			late := make([]time.Duration, 0, b.N)
			for range b.N {
				at := clock.Now().Add(20 * time.Millisecond)
				if err := wait(at); err != nil {
					b.Fatal(err)
				}
				late = append(late, clock.Now().Sub(at))
			}
			report(b, late)
		})
	}
}

// report reports percentiles.
func report(b *testing.B, late []time.Duration) {
	slices.Sort(late)
	b.ReportMetric(float64(late[len(late)/2])/1e3, "p50-us")
	b.ReportMetric(float64(late[len(late)*99/100])/1e3, "p99-us")
	b.ReportMetric(float64(late[len(late)-1])/1e3, "most-us")
}

// Goroutines that call Notice end no wait before its instant, and lose none. The end of a context is not missed.
func TestNotice(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	timer := NewTimer(ctx)
	defer timer.Close()
	stop := make(chan struct{})
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					timer.Notice(clock.Now().Add(100 * time.Microsecond)) // too early by that
				}
			}
		})
	}
	for range 20 {
		at := clock.Now().Add(200 * time.Microsecond)
		if err := timer.Wait(at); err != nil {
			t.Fatal(err)
		}
		if now := clock.Now(); now < at {
			t.Fatalf("the wait ended %v early", at.Sub(now))
		}
	}
	time.AfterFunc(time.Millisecond, cancel)
	if err := timer.Wait(clock.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want the context's error", err)
	}
	close(stop)
	others.Wait()
}

// The margin converges to what nine of ten sleeps are late by at most, from any start, and stays within its bounds.
func TestMarginLearns(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name       string
		late       func() time.Duration
		least, not margin // the margin is within [least, not)
	}{
		{"never late", func() time.Duration { return 0 }, minMargin, minMargin + 1},
		{"always very late", func() time.Duration { return time.Second }, maxMargin, maxMargin + 1},
		{"evenly up to 100 us", func() time.Duration { return time.Duration(random.IntN(100_000)) }, 84_000, 96_000},
		{"40 us, now and then a second", func() time.Duration {
			if random.IntN(20) == 0 {
				return time.Second
			}
			return 40 * time.Microsecond
		}, 40_000, 48_000},
	} {
		for _, from := range []margin{minMargin, firstMargin, maxMargin} {
			m := from
			for range 5000 {
				m.learn(c.late())
				if m < minMargin || m > maxMargin {
					t.Fatalf("%s: %v", c.name, time.Duration(m))
				}
			}
			if m < c.least || m >= c.not {
				t.Errorf("%s, from %v: %v", c.name, time.Duration(from), time.Duration(m))
			}
		}
	}
}
