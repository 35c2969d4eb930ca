package agent

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// farClock is a coordinator's clock behind a network, in a bubble. It differs from this machine's clock by an offset
// and a drift.
type farClock struct {
	spatev1.ControlServiceClient
	begin       clock.Instant
	offset      time.Duration
	ppm         int64
	there, back func() time.Duration // delays
	asked       atomic.Int64
}

// at returns the coordinator's clock at an instant of this machine.
func (f *farClock) at(here clock.Instant) clock.Instant {
	return here.Add(f.offset + here.Sub(f.begin)*time.Duration(f.ppm)/1e6)
}

func (f *farClock) ProbeClock(
	context.Context, *spatev1.ProbeClockRequest, ...grpc.CallOption,
) (*spatev1.ProbeClockResponse, error) {
	f.asked.Add(1)
	time.Sleep(f.there())
	now := int64(f.at(clock.Now()))
	time.Sleep(f.back())
	return &spatev1.ProbeClockResponse{ReceivedClockNs: now, SentClockNs: now}, nil
}

// follow runs an agent's clock against the far one, in a bubble, and calls look once the clock is known.
func (f *farClock) follow(look func(c *coordinatorClock)) {
	ctx, cancel := context.WithCancel(context.Background())
	c := newCoordinatorClock(func(leap time.Duration) { panic(leap) })
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Follow(ctx, f) }()
	<-c.settled
	look(c)
	cancel()
	<-done
}

// Whatever the network does to the probes, and however the clocks drift within the bound, the true start error is
// within the reported error and its uncertainty.
func TestStartErrorIsWithinItsUncertainty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := diceOf(rapid.Uint64().Draw(rt, "delays"))
		spread := time.Duration(rapid.SampledFrom([]int{0, 1, 20, 300, 2000}).Draw(rt,
			"longest delay in ms"))*time.Millisecond + 1
		uneven := time.Duration(rapid.SampledFrom([]int{1, 1000}).Draw(rt, "way back is shorter by"))
		wait := time.Duration(rapid.IntRange(0, 40_000).Draw(rt, "armed after, in ms")) * time.Millisecond
		lead := time.Duration(rapid.IntRange(-1000, 60_000).Draw(rt, "lead in ms")) * time.Millisecond
		f := &farClock{
			offset: time.Duration(rapid.Int64Range(-1e12, 1e12).Draw(rt, "offset")),
			ppm:    rapid.Int64Range(-100, 100).Draw(rt, "drift in ppm"),
			there:  func() time.Duration { return d.below(spread) },
			back:   func() time.Duration { return d.below(spread) / uneven },
		}
		synctest.Test(t, func(*testing.T) {
			f.begin = clock.Now()
			f.follow(func(c *coordinatorClock) {
				time.Sleep(wait)
				armed := f.at(clock.Now().Add(lead))
				start, uncertainty, known := c.ToLocal(armed)
				if !known {
					rt.Fatal("settled, but not known")
				}
				time.Sleep(clock.Until(start))
				now := clock.Now()
				printed, truth := now.Sub(start), f.at(now).Sub(armed)
				if wrong := (truth - printed).Abs(); wrong > uncertainty {
					rt.Fatalf("start error is %v, said to be %v +- %v", truth, printed, uncertainty)
				}
			})
		})
	})
}

// dice is a random source for many goroutines.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func diceOf(seed uint64) *dice { return &dice{r: rand.New(rand.NewPCG(seed, 1))} }

// below returns a duration from 0 up to, but not including, a bound.
func (d *dice) below(bound time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.r.Int64N(int64(bound)))
}

// around returns a normally distributed duration, at least 0.
func (d *dice) around(mean, deviation time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return max(0, mean+time.Duration(d.r.NormFloat64()*float64(deviation)))
}

// Over a link of 150 ms with jitter, the clock is known within half a second of a new connection, and starts are soon
// close together.
func TestClockOverASlowLink(t *testing.T) {
	var early, soon []time.Duration
	for seed := range uint64(200) {
		d := diceOf(seed)
		delay := func() time.Duration { return d.around(75*time.Millisecond, 10*time.Millisecond) }
		f := &farClock{offset: time.Hour, ppm: 20, there: delay, back: delay}
		synctest.Test(t, func(t *testing.T) {
			f.begin = clock.Now()
			f.follow(func(c *coordinatorClock) {
				if after := clock.Now().Sub(f.begin); after > 500*time.Millisecond {
					t.Errorf("settled after %v", after)
				}
				wrong := func() time.Duration {
					now := clock.Now()
					o, _ := c.Now()
					if o.Uncertainty > 100*time.Millisecond {
						t.Errorf("uncertainty of %v", o.Uncertainty)
					}
					return (now + clock.Instant(o.Nanos)).Sub(f.at(now)).Abs()
				}
				early = append(early, wrong())
				time.Sleep(5 * time.Second)
				soon = append(soon, wrong())
				time.Sleep(time.Minute)
				before := f.asked.Load()
				time.Sleep(10 * time.Second)
				if n := f.asked.Load() - before; n > 11 {
					t.Errorf("%d probes in 10 s of a long session", n)
				}
			})
		})
	}
	p99 := func(all []time.Duration) time.Duration { slices.Sort(all); return all[len(all)*99/100] }
	t.Logf("150 ms, jitter 10 ms each way: off by %v (p99) when settled, %v after 5 s", p99(early), p99(soon))
	if p99(soon) > 5*time.Millisecond {
		t.Errorf("off by %v (p99) after 5 s", p99(soon))
	}
}

// While heartbeats bring samples there are no probes, unless a start may be near. The clock is known as well as by
// probes.
func TestHeartbeatsReplaceProbes(t *testing.T) {
	d := diceOf(1)
	delay := func() time.Duration { return d.below(20 * time.Millisecond) }
	f := &farClock{offset: time.Hour, ppm: -50, there: delay, back: delay}
	synctest.Test(t, func(t *testing.T) {
		f.begin = clock.Now()
		f.follow(func(c *coordinatorClock) {
			beat := func(times int) (probes int64) {
				before := f.asked.Load()
				for range times {
					asked := clock.Now()
					m, _ := f.ProbeClock(t.Context(), nil)
					f.asked.Add(-1) // it was a heartbeat
					c.Take(asked, clock.Now(), &spatev1.Renewed{
						ReceivedClockNs: m.GetReceivedClockNs(), SentClockNs: m.GetSentClockNs(),
					})
					time.Sleep(time.Second - clock.Now().Sub(asked))
				}
				return f.asked.Load() - before
			}
			if n := beat(5); n < 16 {
				t.Errorf("%d probes in 5 s when a start may be near", n)
			}
			c.ProbeSeldom()
			time.Sleep(100 * time.Millisecond) // the last of them have begun
			if n := beat(100); n != 0 {
				t.Errorf("%d probes beside heartbeats", n)
			}
			now := clock.Now()
			o, _ := c.Now()
			off := (now + clock.Instant(o.Nanos)).Sub(f.at(now)).Abs()
			if off > o.Uncertainty || o.Uncertainty > 20*time.Millisecond {
				t.Errorf("off by %v, said to be up to %v", off, o.Uncertainty)
			}
			before := f.asked.Load()
			time.Sleep(10 * time.Second)
			if n := f.asked.Load() - before; n < 7 {
				t.Errorf("%d probes in 10 s without heartbeats", n)
			}
		})
	})
}

// A sample that comes without a probe shows a clock that stood still. One that cannot be right does not replace probes.
func TestHeartbeatsShowALeap(t *testing.T) {
	var leaps []time.Duration
	c := newCoordinatorClock(func(leap time.Duration) { leaps = append(leaps, leap) })
	c.ProbeSeldom()
	now := clock.Now()
	take := func(received, sent time.Duration) {
		c.Take(now, now.Add(time.Millisecond), &spatev1.Renewed{
			ReceivedClockNs: int64(now.Add(received)), SentClockNs: int64(now.Add(sent)),
		})
	}
	take(time.Second, 2*time.Second) // longer than the whole exchange
	if c.probes() != 1 || len(leaps) > 0 {
		t.Errorf("%d probes, leaps %v after a sample that cannot be", c.probes(), leaps)
	}
	take(time.Second, time.Second)
	if c.probes() != 0 || len(leaps) > 0 {
		t.Errorf("%d probes, leaps %v after a sample", c.probes(), leaps)
	}
	take(time.Minute, time.Minute)
	if len(leaps) != 1 || leaps[0] < 58*time.Second {
		t.Errorf("leaps %v", leaps)
	}
}
