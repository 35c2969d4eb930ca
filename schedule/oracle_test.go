package schedule

import (
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// dumbWarmup says what is warm-up: the first requests indices, what is offered before until, and the first told offers,
// which were taken before Measure was called.
type dumbWarmup struct {
	requests uint64
	until    time.Duration
	told     int
}

// dumbSchedule applies the definitions to a list of all arrivals that could start. quota measured arrivals end the
// measured part if the load has requests, and so does coolFrom if the load has a cool-down.
func dumbSchedule(
	load *spatev1.LoadPoint, offers []Arrival, quota uint64, coolFrom time.Duration, w dumbWarmup,
) []Arrival {
	cooldown := load.GetCooldown().AsDuration()
	end, first, until := len(offers), time.Duration(0), time.Duration(0)
	ends := func(at int, when, coolUntil time.Duration) {
		if at >= 0 && (at < end || at == end && when < first) { // the earlier of two ends counts
			end, first, until = at, when, coolUntil
		}
	}
	if coolFrom > 0 && cooldown > 0 {
		ends(slices.IndexFunc(offers, func(a Arrival) bool { return a.Offset >= coolFrom }), coolFrom, math.MaxInt64)
	}
	if load.GetDuration() != nil {
		past := slices.IndexFunc(offers, func(a Arrival) bool { return a.Index >= w.requests })
		begin := w.until
		if w.requests > 0 && past >= 0 {
			begin = max(begin, offers[past].Offset)
		}
		over := begin + load.GetDuration().AsDuration()
		for i := max(past, w.told); past >= 0 && i < len(offers); i++ {
			if offers[i].Offset >= over {
				ends(i, over, over+cooldown)
				break
			}
		}
	}
	measured := make([]int, 0, len(offers))
	for i, a := range offers {
		if i >= w.told && a.Index >= w.requests && a.Offset >= w.until {
			measured = append(measured, i)
		}
	}
	if load.GetRequests() > 0 && uint64(len(measured)) > quota {
		last := offers[measured[max(quota, 1)-1]].Offset
		ends(measured[quota], last, last+cooldown)
	}
	var list []Arrival
	for i, a := range offers {
		a.Unmeasured = i >= end || !slices.Contains(measured, i)
		if i < end || a.Offset < until {
			list = append(list, a)
		}
	}
	return list
}

// TestClosedEndsAsDefined lets one agent's slots call Next at random times, with a call of Measure in between, and
// compares the result with the definition.
func TestClosedEndsAsDefined(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		load := limited(t, rapid.Bool().Draw(t, "phased"))
		load.Concurrency = rapid.Uint32Range(1, 20).Draw(t, "concurrency")
		var coolFrom time.Duration
		end := time.Duration(math.MaxInt64)
		if load.Requests == 0 && load.Duration == nil || rapid.Bool().Draw(t, "phases") {
			end = time.Duration(rapid.Int64Range(int64(5*time.Second), int64(9*time.Second)).Draw(t, "phase"))
			coolFrom = end - load.GetCooldown().AsDuration()
			load.Phases = []*spatev1.Phase{{From: float64(load.Concurrency), Duration: durationpb.New(end)}}
		}
		s, err := NewStripe([]uint32{3, 1, 2}, rapid.IntRange(0, 2).Draw(t, "rank"))
		if err != nil {
			t.Fatal(err)
		}
		c := closed(t, load, s)
		if c.Slots() == 0 {
			t.Skip("no slots")
		}
		warmup := dumbWarmup{requests: load.WarmupRequests, until: load.WarmupDuration.AsDuration()}
		told := -1
		if steady := load.GetWarmupUntilSteady().AsDuration(); steady > 0 {
			told = rapid.IntRange(0, 400).Draw(t, "told after")
			warmup.told, warmup.until = told, time.Duration(rapid.Int64Range(0, int64(steady)).Draw(t, "from"))
		}
		gaps := rapid.SampledFrom([]time.Duration{time.Millisecond, 20 * time.Millisecond,
			100 * time.Millisecond}).Draw(t, "gaps")
		times := rapid.SliceOfN(rapid.Int64Range(0, int64(gaps)), 700, 700).Draw(t, "times")
		var offers, got []Arrival
		quota, now := uint64(0), time.Duration(0)
		for i, index := 0, uint64(0); i < len(times); index++ {
			if !s.Has(index % uint64(load.Concurrency)) {
				continue
			}
			if index >= load.WarmupRequests && index < load.WarmupRequests+load.Requests {
				quota++
			}
			if i == told {
				if _, measures := c.Measure(warmup.until); !measures { // it has passed
					warmup.until = now + 1
					c.Measure(warmup.until)
				}
			}
			now += time.Duration(times[i])
			if now < end && (i >= told || now < load.GetWarmupUntilSteady().AsDuration()+MeasureSlack) {
				offers = append(offers, Arrival{Index: index, Offset: now})
			} else {
				i, end = len(times), 0
			}
			if a, more := c.Next(now); more {
				got = append(got, a)
			}
			i++
		}
		want := dumbSchedule(load, offers, quota, coolFrom, warmup)
		if !slices.Equal(got, want) {
			t.Fatalf("%v\n%d started, want %d", load, len(got), len(want))
		}
	})
}
