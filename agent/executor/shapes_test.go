package executor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const ms = time.Millisecond

// span returns a duration for a load.
func span(d time.Duration) *durationpb.Duration { return durationpb.New(d) }

func TestThinkTimeIsRestAndNoDelay(t *testing.T) {
	virtual(func(t *testing.T) {
		load := &spatev1.LoadPoint{Concurrency: 1, Requests: 6, ThinkTime: &spatev1.ThinkTime{Mean: span(20 * ms)}}
		o := begin(t, enginetest.AssignOf(enginetest.StageOf(load, newEngine(t, 5*ms, 0)), 0), ready.Limits{}).Wait(t)
		for i, row := range o.rows[1:] {
			if before := o.rows[i]; row.GetScheduledNs() != before.GetEndNs()+(20*ms).Nanoseconds() ||
				row.GetStartNs() < row.GetScheduledNs() {
				t.Errorf("request %d: scheduled %d, started %d, the one before ended %d",
					row.GetIndex(), row.GetScheduledNs(), row.GetStartNs(), before.GetEndNs())
			}
		}
		if len(o.rows) != 6 {
			t.Errorf("%d requests", len(o.rows))
		}
	})(t)
}

// Slots that rest for an hour do not delay the end of the stage.
func TestRestEndsWithTheSchedule(t *testing.T) {
	for name, load := range map[string]*spatev1.LoadPoint{
		"duration":              {Concurrency: 2, Duration: span(60 * ms)},
		"requests":              {Concurrency: 2, Requests: 2},
		"requests and cooldown": {Concurrency: 2, Requests: 2, Cooldown: span(60 * ms)},
		"fewer than slots":      {Concurrency: 3, Requests: 2},
	} {
		t.Run(name, virtual(func(t *testing.T) {
			load.ThinkTime = &spatev1.ThinkTime{Mean: span(time.Hour)}
			o := begin(
				t,
				enginetest.AssignOf(enginetest.StageOf(load, newEngine(t, 0, 0)), 0),
				ready.Limits{},
			).Wait(t)
			if o.Totals.GetCounters().GetCompleted() != 2 || o.Totals.GetStopped() || o.Totals.GetNeverSent() != 0 {
				t.Errorf("totals %v", o.Totals)
			}
		}))
	}
}

func TestFailuresPauseASlotThatThinksLess(t *testing.T) {
	virtual(func(t *testing.T) {
		s := &slot{worker: &worker{}, free: 1}
		load := &spatev1.LoadPoint{Concurrency: 1, Requests: 1, ThinkTime: &spatev1.ThinkTime{Mean: span(10 * ms)}}
		u := begin(t, enginetest.AssignOf(enginetest.StageOf(load, newEngine(t, 0, 0)), 0), ready.Limits{})
		u.Wait(t) // its schedule is still usable, and its waits end at once
		s.load = u.Load
		for _, c := range []struct {
			class  spatev1.ErrorClass
			paused bool
		}{
			{0, false},
			{spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS, false},
			{spatev1.ErrorClass_ERROR_CLASS_CONNECT, true},
		} {
			s.observation = *ended(1, 2, c.class)
			s.observation.End = s.observation.End.Add(1 << 50) // so that the pause is still ahead
			s.think()
			if thought := s.observation.End.Add(10 * ms); (s.free != thought) != c.paused {
				t.Errorf("%v: free at %d, thinks until %d", c.class, s.free, thought)
			}
		}
	})(t)
}

func TestCooldownIsSentAndNotMeasured(t *testing.T) {
	for name, load := range map[string]*spatev1.LoadPoint{
		"closed loop": {Concurrency: 2, Requests: 10, WarmupRequests: 3, Cooldown: span(60 * ms)},
		"open loop":   {Rate: 200, Arrival: "constant", Requests: 10, WarmupRequests: 3, Cooldown: span(60 * ms)},
	} {
		t.Run(name, virtual(func(t *testing.T) {
			o := begin(
				t,
				enginetest.AssignOf(enginetest.StageOf(load, newEngine(t, 2*ms, 0)), 0),
				ready.Limits{},
			).Wait(t)
			c := o.Totals.GetCounters()
			if c.GetCompleted() != 10 || c.GetUnmeasuredEnded() <= 3 || o.Totals.GetNeverSent() != 0 {
				t.Errorf("totals %v", o.Totals)
			}
			last := o.rows[12]
			if last.GetUnmeasured() || !o.rows[13].GetUnmeasured() {
				t.Fatal("request 12 is not the last measured one")
			}
			to := o.Totals.GetSteadyToNs()
			if o.Totals.SteadyFromNs == nil || to < last.GetScheduledNs() || to > o.rows[len(o.rows)-1].GetStartNs() {
				t.Errorf("steady from %v to %d; the last measured request started at %d", o.Totals.SteadyFromNs, to,
					last.GetStartNs())
			}
			end := int64(0)
			for _, row := range o.rows {
				end = max(end, row.GetEndNs())
			}
			// 60 ms, less the last gap of 5 ms:
			if cooled := time.Duration(end - last.GetScheduledNs()); cooled < 55*ms {
				t.Errorf("cooled down for %v", cooled)
			}
		}))
	}
}

func TestMeasureEndsTheWarmup(t *testing.T) {
	const from = 150 * ms
	for name, load := range map[string]*spatev1.LoadPoint{
		"closed loop by requests":   {Concurrency: 2, Requests: 12},
		"closed loop by duration":   {Concurrency: 2, Duration: span(300 * ms)},
		"open loop by requests":     {Rate: 200, Arrival: "poisson", Requests: 12},
		"open loop by duration":     {Rate: 200, Arrival: "constant", Duration: span(300 * ms)},
		"open loop of one sparse":   {Rate: 2, Arrival: "constant", Requests: 1},
		"closed loop that was told": {Concurrency: 2, Requests: 12},
	} {
		t.Run(name, virtual(func(t *testing.T) {
			load.WarmupUntilSteady = span(time.Minute)
			u := begin(t, enginetest.AssignOf(enginetest.StageOf(load, newEngine(t, 2*ms, 0)), 0), ready.Limits{})
			if !strings.HasSuffix(name, "told") {
				enginetest.Eventually(t, "warm-up", func() bool { return u.start.Add(20*ms) < clock.Now() })
			}
			for _, at := range []time.Duration{from + 50*ms, from} { // the last call counts
				if kept := u.Measure(at, nil); kept == nil || *kept != at.Nanoseconds() {
					t.Errorf("asked for %v: %v", at, kept)
				}
			}
			o := u.Wait(t)
			for _, row := range o.rows {
				at := row.GetScheduledNs()
				if u.Closed != nil {
					at = row.GetStartNs() // a slot asks a little later than it was free
				}
				if row.GetUnmeasured() && at >= (from+20*ms).Nanoseconds() || !row.GetUnmeasured() &&
					at < from.Nanoseconds() {
					t.Errorf("request %d at %v: unmeasured %t", row.GetIndex(), time.Duration(at), row.GetUnmeasured())
				}
			}
			c := o.Totals.GetCounters()
			if n := load.GetRequests(); n > 0 && c.GetCompleted() != n || c.GetCompleted() == 0 ||
				c.GetUnmeasuredEnded() == 0 || o.Totals.GetNeverSent() != 0 {
				t.Errorf("totals %v", o.Totals)
			}
			if c.GetUnmeasuredFrames() != 2*c.GetUnmeasuredEnded() {
				t.Errorf("counters %v", c)
			}
		}))
	}
}

func TestEnoughIsARegularEnd(t *testing.T) {
	for name, load := range map[string]*spatev1.LoadPoint{
		"closed loop": {Concurrency: 2, Requests: 100_000},
		"open loop":   {Rate: 100, Arrival: "constant", Requests: 100_000},
		"saturated":   {Rate: 2000, Arrival: "constant", Duration: span(time.Hour)},
	} {
		for _, sessions := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " of sessions"}[sessions], virtual(func(t *testing.T) {
				e := newEngine(t, 5*ms, 0)
				stage := enginetest.StageOf(load, e)
				if sessions {
					stage = sessionStage(load, thinking(5*ms), e)
				}
				u := begin(t, enginetest.AssignOf(stage, 0), ready.Limits{MaxStreams: 5})
				enginetest.Eventually(t, "some requests", func() bool { return len(e.Requests()) > 10 })
				u.Stop(false, true)
				u.Stop(false, false) // the first call counts
				o := u.Wait(t)
				if c := o.Totals.GetCounters(); o.Totals.GetStopped() || o.Totals.GetNeverSent() != 0 ||
					o.Totals.GetFailure() != "" ||
					c.GetCancelled() != 0 || c.GetCompleted() != c.GetStarted() {
					t.Errorf("totals %v", o.Totals)
				}
			}))
		}
	}
}

// phase returns a phase of a changing load.
func phase(from, to float64, d time.Duration) *spatev1.Phase {
	return &spatev1.Phase{From: from, To: new(to), Duration: span(d)}
}

func TestConcurrencyFollowsItsPhases(t *testing.T) {
	virtual(func(t *testing.T) {
		load := &spatev1.LoadPoint{Concurrency: 4, Phases: []*spatev1.Phase{phase(0, 4, 400*ms), phase(4, 0, 400*ms)}}
		o := begin(t, enginetest.AssignOf(enginetest.StageOf(load, newEngine(t, 5*ms, 0)), 0), ready.Limits{}).Wait(t)
		for _, row := range o.rows {
			at := time.Duration(row.GetStartNs())
			if row.GetStartNs() != row.GetScheduledNs() || time.Duration(row.GetScheduledNs()) > 800*ms {
				t.Errorf("request %d was scheduled for %v and started at %v", row.GetIndex(),
					time.Duration(row.GetScheduledNs()), at)
			}
			busy := 0
			for _, other := range o.rows {
				if other.GetStartNs() <= row.GetStartNs() && row.GetStartNs() < other.GetEndNs() {
					busy++
				}
			}
			// Slot u may start while the concurrency is above u, and its last answer ends later.
			if up := 1 + int(at/(100*ms)); at < 400*ms && busy > up {
				t.Errorf("%d in flight at %v", busy, at)
			}
		}
		if o.Totals.SteadyFromNs != nil || o.Totals.SteadyToNs != nil || len(o.rows) < 20 {
			t.Errorf("%d requests, totals %v", len(o.rows), o.Totals)
		}
	})(t)
}

// A server that never answers gets no more than the drain timeout, although no slot becomes free to notice that the
// time is over.
func TestEndOfTheTimeNeedsNoFreeSlot(t *testing.T) {
	for name, load := range map[string]*spatev1.LoadPoint{
		"phases":   {Concurrency: 2, Phases: []*spatev1.Phase{phase(2, 2, 50*ms)}},
		"duration": {Concurrency: 2, Duration: span(50 * ms)},
		"cooling":  {Concurrency: 2, Duration: span(20 * ms), Cooldown: span(30 * ms)},
	} {
		t.Run(name, virtual(func(t *testing.T) {
			stage := enginetest.StageOf(load, newEngine(t, time.Hour, 0))
			stage.DrainTimeout = span(50 * ms)
			o := begin(t, enginetest.AssignOf(stage, 0), ready.Limits{}).Wait(t)
			if c := o.Totals.GetCounters(); c.GetCancelled() != 2 || o.Totals.GetNeverSent() != 0 ||
				o.Totals.GetStopped() {
				t.Errorf("totals %v", o.Totals)
			}
			want := span(50*ms - load.GetCooldown().AsDuration()).AsDuration()
			if o.Totals.GetSteadyToNs() != want.Nanoseconds() {
				t.Errorf("steady to %v, not %v", time.Duration(o.Totals.GetSteadyToNs()), want)
			}
		}))
	}
}

func TestRateOfPhasesIsNeverSteady(t *testing.T) {
	virtual(func(t *testing.T) {
		load := &spatev1.LoadPoint{Rate: 400, Arrival: "constant", Phases: []*spatev1.Phase{phase(0, 400, 200*ms)}}
		o := begin(t, enginetest.AssignOf(enginetest.StageOf(load, newEngine(t, 0, 0)), 0), ready.Limits{}).Wait(t)
		if n := o.Totals.GetCounters().GetCompleted(); n < 35 || n > 45 ||
			o.Totals.SteadyFromNs != nil { // the integral is 40
			t.Errorf("totals %v", o.Totals)
		}
		starts := slices.IsSortedFunc(o.rows,
			func(a, b *spatev1.RequestRecord) int { return int(a.GetScheduledNs() - b.GetScheduledNs()) })
		if !starts {
			t.Error("arrivals are not in order")
		}
	})(t)
}

// Two stages with one seed may go to one server, as two targets. Requests that must miss every cache are never
// repeated.
func TestCacheBustingTellsStagesApart(t *testing.T) {
	virtual(func(t *testing.T) {
		seen := map[uint64]bool{}
		for index := range uint32(2) {
			stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 3}, newEngine(t, 0, 0))
			stage.Index, stage.Workload.CacheBusting = index, "request"
			for _, row := range begin(t, enginetest.AssignOf(stage, 0), ready.Limits{}).Wait(t).rows {
				if seen[row.GetBodyHash()] {
					t.Errorf("stage %d sends request %d again", index, row.GetIndex())
				}
				seen[row.GetBodyHash()] = true
			}
		}
		if len(seen) != 6 {
			t.Errorf("%d different requests", len(seen))
		}
	})(t)
}

// Canaries go beside the measured requests, at the same endpoints, and are in none of their numbers.
func TestCanariesAreInNoOtherNumber(t *testing.T) {
	virtual(func(t *testing.T) {
		load := &spatev1.LoadPoint{Concurrency: 4, Requests: 400, WarmupRequests: 40}
		one, two := newEngine(t, ms, 0), newEngine(t, ms, 0)
		stage := enginetest.StageOf(load, one, two)
		stage.Canaries = &spatev1.Canaries{Share: 0.2}
		u := begin(t, enginetest.AssignOf(stage, 0), ready.Limits{})
		want := uint64(0)
		for i := range uint64(400) {
			if _, due := u.Canaries.Due(int(i%2), 40+i, 0); due {
				want++
			}
		}
		o := u.Wait(t)
		c := o.Totals.GetCounters()
		if c.GetCompleted() != 400 || len(o.rows) != 440 || c.GetConnections() != 0 {
			t.Errorf("%d completed, %d rows", c.GetCompleted(), len(o.rows))
		}
		// In virtual time engines answer with the ID of the request.
		if want < 50 || c.GetCanaries() != want || c.GetCanariesDiffering() != want || c.GetCanariesFailed() != 0 {
			t.Errorf("counters %v, want %d canaries", c, want)
		}
		byEndpoint := [2]uint64{}
		for _, s := range o.snapshots {
			if s.GetPeakInFlight() > 4 {
				t.Errorf("%d in flight", s.GetPeakInFlight())
			}
			for _, series := range s.GetSeries() {
				byEndpoint[series.GetEndpoint()] += series.GetCounters().GetCanaries()
			}
		}
		if byEndpoint[0] < want/3 || byEndpoint[1] < want/3 {
			t.Errorf("canaries by endpoint: %v", byEndpoint)
		}
	})(t)
}
