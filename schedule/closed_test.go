package schedule

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// closed returns the closed loop of a stripe.
func closed(t rapid.TB, load *spatev1.LoadPoint, s Stripe) *Closed {
	t.Helper()
	c, err := NewClosed(load, 1, sole(s))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// take calls Next each millisecond until there is nothing more to start.
func take(c *Closed) []Arrival {
	var all []Arrival
	for now := time.Duration(0); ; now += time.Millisecond {
		a, ok := c.Next(now)
		if !ok {
			return all
		}
		all = append(all, a)
	}
}

// TestClosedUnion: all agents together have as many slots as the concurrency, and start each index once, on the agent
// that has its slot.
func TestClosedUnion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		load := &spatev1.LoadPoint{
			Concurrency:    rapid.Uint32Range(1, 200).Draw(t, "concurrency"),
			Requests:       rapid.Uint64Range(1, 1000).Draw(t, "requests"),
			WarmupRequests: rapid.Uint64Range(0, 300).Draw(t, "warmup_requests"),
		}
		stripes, err := split(weights.Draw(t, "weights"))
		if err != nil {
			t.Fatal(err)
		}
		total := load.Requests + load.WarmupRequests
		seen := make([]bool, total)
		slots := 0
		for _, s := range stripes {
			c := closed(t, load, s)
			slots += c.Slots()
			all := take(c)
			checkOwn(t, load, s, all, seen)
		}
		if slots != int(load.Concurrency) {
			t.Fatalf("%d slots, want %d", slots, load.Concurrency)
		}
		if slices.Contains(seen, false) {
			t.Fatal("not all requests were started")
		}
	})
}

// checkOwn checks an agent's requests and marks them as seen.
func checkOwn(t *rapid.T, load *spatev1.LoadPoint, s Stripe, all []Arrival, seen []bool) {
	measured := uint64(0)
	for i, a := range all {
		if i > 0 && a.Index <= all[i-1].Index {
			t.Fatalf("%d after %d", a.Index, all[i-1].Index)
		}
		if !s.Has(a.Index % uint64(load.Concurrency)) {
			t.Fatalf("%d is another agent's", a.Index)
		}
		if a.Unmeasured != (a.Index < load.WarmupRequests) {
			t.Fatalf("%+v with a warm-up of %d requests", a, load.WarmupRequests)
		}
		if a.Index >= uint64(len(seen)) || seen[a.Index] {
			t.Fatalf("%d is beyond the end or came twice", a.Index)
		}
		seen[a.Index] = true
		if !a.Unmeasured {
			measured++
		}
	}
	if n, known := Quota(load, sole(s)); !known || n != measured {
		t.Fatalf("quota %d (%v), %d started", n, known, measured)
	}
}

// TestClosedEnds plays one agent, which calls Next each millisecond, through each kind of warm-up and end.
func TestClosedEnds(t *testing.T) {
	ms := func(n int) *durationpb.Duration { return durationpb.New(time.Duration(n) * time.Millisecond) }
	for name, c := range map[string]struct {
		load             *spatev1.LoadPoint
		warmup, measured int
	}{
		"requests":                   {&spatev1.LoadPoint{Requests: 50}, 0, 50},
		"duration":                   {&spatev1.LoadPoint{Duration: ms(30)}, 0, 30},
		"requests first":             {&spatev1.LoadPoint{Requests: 20, Duration: ms(30)}, 0, 20},
		"duration first":             {&spatev1.LoadPoint{Requests: 50, Duration: ms(30)}, 0, 30},
		"warm-up by requests":        {&spatev1.LoadPoint{Requests: 50, WarmupRequests: 7}, 7, 50},
		"warm-up by time":            {&spatev1.LoadPoint{Requests: 50, WarmupDuration: ms(9)}, 9, 50},
		"span after a timed warm-up": {&spatev1.LoadPoint{Duration: ms(30), WarmupDuration: ms(9)}, 9, 30},
		"span after counted warm-up": {&spatev1.LoadPoint{Duration: ms(30), WarmupRequests: 7}, 7, 30},
		"both warm-ups, time longer": {&spatev1.LoadPoint{Duration: ms(30), WarmupRequests: 7, WarmupDuration: ms(9)},
			9, 30},
		"both warm-ups, count longer": {&spatev1.LoadPoint{Duration: ms(30), WarmupRequests: 17, WarmupDuration: ms(9)},
			17, 30},
	} {
		c.load.Concurrency = 4
		all := take(closed(t, c.load, whole))
		warmup := 0
		for i, a := range all {
			if a.Offset != time.Duration(i)*time.Millisecond || a.Index != uint64(i) {
				t.Errorf("%s: request %d is %+v", name, i, a)
			}
			if a.Unmeasured {
				warmup++
			}
		}
		if warmup != c.warmup || len(all)-warmup != c.measured {
			t.Errorf("%s: %d warm-up and %d measured requests, want %d and %d", name, warmup, len(all)-warmup,
				c.warmup, c.measured)
		}
	}
}

// TestClosedMeasuresExactly: a warm-up by time that ends at a different moment on each agent does not change how many
// requests are measured.
func TestClosedMeasuresExactly(t *testing.T) {
	load := &spatev1.LoadPoint{Concurrency: 10, Requests: 100, WarmupDuration: durationpb.New(time.Second)}
	stripes, err := split([]uint32{1, 2, 4})
	if err != nil {
		t.Fatal(err)
	}
	measured := uint64(0)
	for rank, s := range stripes {
		c := closed(t, load, s)
		quota, known := Quota(load, sole(s))
		if !known {
			t.Fatal("the quota is not known")
		}
		own := uint64(0)
		for now := time.Duration(0); ; now += time.Duration(rank+1) * 7 * time.Millisecond {
			a, ok := c.Next(now)
			if !ok {
				break
			}
			if !a.Unmeasured {
				own++
			}
		}
		if own != quota {
			t.Errorf("agent %d measured %d, quota %d", rank, own, quota)
		}
		measured += own
	}
	if measured != load.Requests {
		t.Errorf("%d measured, want %d", measured, load.Requests)
	}
}

// TestClosedIsSafe lets many slots call Next concurrently.
func TestClosedIsSafe(t *testing.T) {
	c := closed(t, &spatev1.LoadPoint{Concurrency: 8, Requests: 10_000}, whole)
	var mu sync.Mutex
	seen := make(map[uint64]bool)
	var slots sync.WaitGroup
	for range c.Slots() {
		slots.Go(func() {
			for a, ok := c.Next(0); ok; a, ok = c.Next(0) {
				mu.Lock()
				seen[a.Index] = true
				mu.Unlock()
			}
		})
	}
	slots.Wait()
	if len(seen) != 10_000 {
		t.Fatalf("%d requests, want 10000", len(seen))
	}
}

func TestClosedRefuses(t *testing.T) {
	for name, load := range map[string]*spatev1.LoadPoint{
		"no end": {Concurrency: 1},
		"all cool-down": {Concurrency: 1, Phases: []*spatev1.Phase{{From: 1, Duration: durationpb.New(1)}},
			Cooldown: durationpb.New(1)},
		"unknown think": {Concurrency: 1, Requests: 1, ThinkTime: &spatev1.ThinkTime{Distribution: "pareto"}},
	} {
		if _, err := NewClosed(load, 1, sole(whole)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestMoreAgentsThanSlots: some agents have nothing to do.
func TestMoreAgentsThanSlots(t *testing.T) {
	stripes, err := split([]uint32{1, 1, 1})
	if err != nil {
		t.Fatal(err)
	}
	c := closed(t, &spatev1.LoadPoint{Concurrency: 2, Duration: durationpb.New(time.Hour)}, stripes[2])
	if _, ok := c.Next(0); ok || c.Slots() != 0 {
		t.Fatalf("the third of three agents has %d of two slots", c.Slots())
	}
}

// TestClosedMeasureNeverComes: the schedule ends by itself.
func TestClosedMeasureNeverComes(t *testing.T) {
	c := closed(t, &spatev1.LoadPoint{Concurrency: 2, Requests: 5, WarmupUntilSteady: durationpb.New(time.Second),
		Cooldown: durationpb.New(time.Hour)}, whole)
	all := take(c)
	if n := time.Duration(len(all)) * time.Millisecond; n != time.Second+MeasureSlack || len(measuredOf(all)) != 0 {
		t.Fatalf("%v of warm-up, %d measured", n, len(measuredOf(all)))
	}
	c.Measure(0)
	if _, more := c.Next(0); more {
		t.Fatal("what was over continues")
	}
}

// TestClosedMeasuresExactlyFromSteady: whenever each agent is told that measuring begins, all together measure the
// requested number, and the cool-down of each is equally long.
func TestClosedMeasuresExactlyFromSteady(t *testing.T) {
	load := &spatev1.LoadPoint{
		Concurrency: 10, Requests: 100, WarmupUntilSteady: durationpb.New(time.Second),
		Cooldown: durationpb.New(50 * time.Millisecond),
	}
	stripes, err := split([]uint32{1, 2, 4})
	if err != nil {
		t.Fatal(err)
	}
	measured := uint64(0)
	for rank, s := range stripes {
		c := closed(t, load, s)
		for now := time.Duration(0); now < time.Duration(rank+1)*10*time.Millisecond; now += time.Millisecond {
			if a, more := c.Next(now); !more || !a.Unmeasured {
				t.Fatalf("%+v, %v before Measure", a, more)
			}
		}
		if at, measures := c.Measure(time.Duration(rank+1)*10*time.Millisecond - time.Millisecond); measures {
			t.Errorf("agent %d measures from %v on, where it has started a request", rank, at)
		}
		for _, from := range []time.Duration{45 * time.Millisecond, 35 * time.Millisecond} {
			if at, measures := c.Measure(from); !measures || at != from {
				t.Errorf("agent %d measures from %v on, asked for %v: %v", rank, at, from, measures)
			}
		}
		own := take(c)
		n := len(measuredOf(own))
		measured += uint64(n)
		if quota, known := Quota(load, sole(s)); !known || quota != uint64(n) {
			t.Errorf("agent %d measured %d, quota %d, known %v", rank, n, quota, known)
		}
		if last := own[len(own)-1]; !last.Unmeasured || own[len(own)-50].Unmeasured {
			t.Errorf("agent %d: no cool-down of 50 ms", rank)
		}
	}
	if measured != load.Requests {
		t.Errorf("%d measured, want %d", measured, load.Requests)
	}
}

// TestThink: constant think times are the mean, exponential ones have the exponential distribution (Kolmogorov-Smirnov,
// at a significance of 0.001), and both are a function of seed and index.
func TestThink(t *testing.T) {
	load := &spatev1.LoadPoint{Concurrency: 1, Requests: 1}
	if rest := closed(t, load, whole).Think(7); rest != 0 {
		t.Errorf("a rest of %v without think time", rest)
	}
	load.ThinkTime = &spatev1.ThinkTime{Mean: durationpb.New(3 * time.Second)}
	if rest := closed(t, load, whole).Think(7); rest != 3*time.Second {
		t.Errorf("a rest of %v, want 3s", rest)
	}
	load.ThinkTime.Distribution = "exponential"
	c, again := closed(t, load, whole), closed(t, load, whole)
	points, sum := make([]float64, 20_000), 0.0
	for i := range points {
		rest := c.Think(uint64(i))
		if rest != again.Think(uint64(i)) {
			t.Fatal("the same index has two rests")
		}
		sum += rest.Seconds() / 3
		points[i] = sum
	}
	if d := kolmogorovSmirnov(points, func(gap float64) float64 { return 1 - math.Exp(-gap) }); d > significant {
		t.Errorf("distance %.2f, at most %.2f", d, significant)
	}
	if other, err := NewClosed(load, 2, sole(whole)); err != nil || other.Think(7) == c.Think(7) {
		t.Errorf("another seed has the same rest: %v", err)
	}
}

// TestUnknownCounts: if anything but counts decides, the number is not known.
func TestUnknownCounts(t *testing.T) {
	second := durationpb.New(time.Second)
	for name, c := range map[string]struct {
		load  *spatev1.LoadPoint
		known bool
	}{
		"requests":             {&spatev1.LoadPoint{Rate: 1, Requests: 10}, true},
		"cool-down":            {&spatev1.LoadPoint{Rate: 1, Requests: 10, Cooldown: second}, true},
		"duration":             {&spatev1.LoadPoint{Rate: 1, Requests: 10, Duration: second}, false},
		"steady":               {&spatev1.LoadPoint{Rate: 1, Requests: 10, WarmupUntilSteady: second}, false},
		"closed, steady":       {&spatev1.LoadPoint{Concurrency: 1, Requests: 10, WarmupUntilSteady: second}, true},
		"closed, phases":       {&spatev1.LoadPoint{Concurrency: 1, Requests: 10, Phases: []*spatev1.Phase{{}}}, false},
		"replay":               {&spatev1.LoadPoint{ReplaySpeed: 1, Requests: 10}, true},
		"replay and cool-down": {&spatev1.LoadPoint{ReplaySpeed: 1, Requests: 10, Cooldown: second}, false},
	} {
		if n, known := Quota(c.load, sole(whole)); known != c.known || known && n != 10 {
			t.Errorf("%s: quota %d, known %v", name, n, known)
		}
	}
}

// TestEndingIsWhereNextEnds: the schedule is over exactly from the end that was known before, and ends only become
// earlier.
func TestEndingIsWhereNextEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := func(name string, least, most int) *durationpb.Duration {
			return durationpb.New(time.Duration(rapid.IntRange(least, most).Draw(t, name)) * time.Millisecond)
		}
		load := &spatev1.LoadPoint{Concurrency: 3, Cooldown: ms("cooldown", 0, 20), WarmupDuration: ms("warmup", 0, 10)}
		load.Requests, load.WarmupRequests = rapid.Uint64Range(0, 20).Draw(t, "requests"),
			rapid.Uint64Range(0, 5).Draw(t, "warmup requests")
		if load.Requests == 0 || rapid.Bool().Draw(t, "timed") {
			load.Duration = ms("duration", 1, 50)
		}
		c := closed(t, load, whole)
		lastMeasured, lastAll := c.Ending()
		for now := time.Duration(0); ; now += time.Duration(rapid.IntRange(0, 3).Draw(t, "step")) * time.Millisecond {
			_, before := c.Ending()
			// the last request is returned at the very instant of the end
			counted := load.Requests > 0 && load.Cooldown.AsDuration() == 0
			a, more := c.Next(now)
			if more && now >= before {
				t.Fatalf("%v at %v, behind the end at %v", a, now, before)
			}
			measured, all := c.Ending()
			if measured > lastMeasured || all > lastAll {
				t.Fatalf("the ends went from %v, %v to %v, %v", lastMeasured, lastAll, measured, all)
			}
			if !more {
				if now < all && !counted {
					t.Fatalf("over at %v, before the end at %v", now, all)
				}
				return
			}
			if !a.Unmeasured && now > measured {
				t.Fatalf("%v is measured at %v, behind the end at %v", a, now, measured)
			}
			lastMeasured, lastAll = measured, all
		}
	})
}

// TestStagger: for any number of agents the slots of a stage start at the same, evenly spread times, each slot on its
// own agent. The largest stagger and concurrency of a plan do not overflow.
func TestStagger(t *testing.T) {
	for _, ws := range [][]uint32{{1}, {1, 1}, {3, 1, 2}} {
		stripes, err := split(ws)
		if err != nil {
			t.Fatal(err)
		}
		load := &spatev1.LoadPoint{Concurrency: 10, Requests: 30, Stagger: durationpb.New(time.Second)}
		var starts []time.Duration
		for _, s := range stripes {
			c := closed(t, load, s)
			last := time.Duration(-1)
			for slot := range c.Slots() {
				at, more := c.Wake(slot, 0)
				if late, _ := c.Wake(slot, time.Second); !more || at <= last || late != time.Second {
					t.Errorf("%v: slot %d starts at %v, after %v, and at %v when that is over", ws, slot,
						at, last, late)
				}
				last = at
				starts = append(starts, at)
			}
		}
		slices.Sort(starts)
		for u, at := range starts {
			if at != time.Duration(u)*100*time.Millisecond {
				t.Errorf("%v: slot %d starts at %v", ws, u, at)
			}
		}
	}
	const day, most = 24 * time.Hour, 10_000_000
	c := closed(t, &spatev1.LoadPoint{Concurrency: most, Requests: 1, Stagger: durationpb.New(day)}, whole)
	if at, _ := c.Wake(most-1, 0); at != day-day/most {
		t.Errorf("the last slot starts at %v", at)
	}
}

// TestWhatStartsInTheStaggerIsWarmUp: the requested number of requests is measured, all after the stagger.
func TestWhatStartsInTheStaggerIsWarmUp(t *testing.T) {
	load := &spatev1.LoadPoint{Concurrency: 4, Requests: 20, Stagger: durationpb.New(10 * time.Millisecond)}
	measured := 0
	for _, a := range take(closed(t, load, whole)) {
		if a.Unmeasured != (a.Offset < 10*time.Millisecond) {
			t.Errorf("%+v", a)
		}
		if !a.Unmeasured {
			measured++
		}
	}
	if measured != 20 {
		t.Errorf("%d measured, want 20", measured)
	}
	if quota, known := Quota(load, sole(whole)); !known || quota != 20 {
		t.Errorf("quota %d, %v", quota, known)
	}
	steady := &spatev1.LoadPoint{Concurrency: 4, Requests: 20, Stagger: durationpb.New(10 * time.Second),
		WarmupUntilSteady: durationpb.New(time.Minute)}
	c := closed(t, steady, whole)
	c.Measure(5 * time.Second)
	if a, _ := c.Next(9 * time.Second); !a.Unmeasured {
		t.Error("measured within the stagger")
	}
	if a, _ := c.Next(10 * time.Second); a.Unmeasured {
		t.Error("not measured behind the stagger")
	}
}
