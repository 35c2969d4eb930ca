package executor

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/schedule"
	"github.com/spate-load/spate/workload/store"
)

// outcome is everything that a load emitted.
type outcome struct {
	snapshots []*spatev1.Snapshot
	rows      []*spatev1.RequestRecord // by index
	Totals    *spatev1.Totals
}

// underWay is a running load.
type underWay struct {
	*Load
	done    chan struct{}
	outcome outcome
}

// begin prepares a load and starts it 20 ms from now.
func begin(t *testing.T, a *spatev1.Assign, l ready.Limits) *underWay {
	t.Helper()
	return beginWith(t, a, resourcesOf(l))
}

func beginWith(t *testing.T, a *spatev1.Assign, k *ready.Resources) *underWay {
	t.Helper()
	return start(t, prepare(t, a, k))
}

// start starts a stage 20 ms from now.
func start(t *testing.T, s *ready.Stage) *underWay {
	return startAt(t, s, clock.Now().Add(20*time.Millisecond))
}

// startAt starts a stage with a given start.
func startAt(t *testing.T, s *ready.Stage, at clock.Instant) *underWay {
	return startWith(t, s, Config{Start: at})
}

// startWith starts a stage. It sets where snapshots go. Changes come before the start.
func startWith(t *testing.T, s *ready.Stage, c Config, changes ...func(*Load)) *underWay {
	u := &underWay{done: make(chan struct{})}
	c.Uncertainty = time.Microsecond
	c.Emit = func(s *spatev1.Snapshot) { u.outcome.snapshots = append(u.outcome.snapshots, s) }
	u.Load = New(s, c)
	if inVirtualTime() {
		u.goVirtual()
	}
	for _, change := range changes {
		change(u.Load)
	}
	go func() {
		defer close(u.done)
		defer outside(s.Close)
		u.Run()
	}()
	t.Cleanup(func() { u.Stop(true, false); u.awaitEnd() })
	return u
}

// awaitEnd waits for the end of the load. Without one the test would not end either.
func (u *underWay) awaitEnd() {
	select {
	case <-u.done:
	case <-time.After(2 * time.Minute):
		panic("the load does not end")
	}
}

// Wait returns the outcome, after checking that the totals are the sum of the snapshots.
func (u *underWay) Wait(t *testing.T) outcome {
	t.Helper()
	u.awaitEnd()
	o := u.outcome
	o.Totals = o.snapshots[len(o.snapshots)-1].GetTotals()
	if o.Totals.GetSnapshots() != uint64(len(o.snapshots)) {
		t.Errorf("%d snapshots, totals say %d", len(o.snapshots), o.Totals.GetSnapshots())
	}
	sum := &spatev1.Counters{}
	for _, s := range o.snapshots {
		o.rows = append(o.rows, s.GetRecords()...)
		for _, series := range s.GetSeries() {
			measure.AddTo(sum, series.GetCounters())
		}
	}
	if diff := gocmp.Diff(sum, o.Totals.GetCounters(), protocmp.Transform()); diff != "" {
		t.Errorf("counters (-sum of snapshots +totals):\n%s", diff)
	}
	slices.SortFunc(o.rows, func(a, b *spatev1.RequestRecord) int {
		return cmp.Or(cmp.Compare(a.GetIndex(), b.GetIndex()), cmp.Compare(a.GetTurn(), b.GetTurn()))
	})
	return o
}

// mean returns the mean of a metric over all snapshots, in milliseconds.
func (o outcome) mean(t *testing.T, metric spatev1.Metric) float64 {
	t.Helper()
	return o.histogram(t, metric).Mean() / 1e6
}

func (o outcome) histogram(t *testing.T, metric spatev1.Metric) *histogram.Histogram {
	t.Helper()
	all := histogram.New(histogram.LayoutOf(metric))
	for _, s := range o.snapshots {
		for _, series := range s.GetSeries() {
			for _, d := range series.GetDistributions() {
				if d.GetMetric() != metric {
					continue
				}
				if err := all.AddProto(d); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return all
}

func TestClosedLoopSendsEachRequestOnce(t *testing.T) {
	a, b := enginetest.New(t, 0, 0), enginetest.New(t, 0, 0)
	stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 5, Requests: 40, WarmupRequests: 7}, a, b)
	weights := []uint32{3, 1, 2}
	var loads []*underWay
	for rank := range weights {
		loads = append(loads, begin(t, enginetest.AssignOf(stage, uint32(rank), weights...), ready.Limits{}))
	}
	var completed, warmup uint64
	seen := map[uint64]int{}
	for _, u := range loads {
		o := u.Wait(t)
		completed += o.Totals.GetCounters().GetCompleted()
		warmup += o.Totals.GetCounters().GetUnmeasuredEnded()
		for _, row := range o.rows {
			seen[row.GetIndex()]++
			if uint64(row.GetEndpoint()) != row.GetIndex()%2 {
				t.Errorf("request %d went to endpoint %d", row.GetIndex(), row.GetEndpoint())
			}
			if row.GetUnmeasured() != (row.GetIndex() < 7) {
				t.Errorf("request %d: warm-up %t", row.GetIndex(), row.GetUnmeasured())
			}
		}
		if o.Totals.GetNeverSent() != 0 || o.Totals.SteadyToNs == nil {
			t.Errorf("totals %v", o.Totals)
		}
	}
	if completed != 40 || warmup != 7 || len(seen) != 47 {
		t.Errorf("%d completed, %d of the warm-up, %d different", completed, warmup, len(seen))
	}
	var ids, want []string
	for i, e := range []*enginetest.Engine{a, b} {
		ids = append(ids, e.Requests()...)
		for index := i; index < 47; index += 2 {
			want = append(want, id(uint64(index), 0))
		}
	}
	slices.Sort(ids)
	slices.Sort(want)
	if diff := gocmp.Diff(want, ids); diff != "" {
		t.Errorf("request ids (-want +got):\n%s", diff)
	}
}

func TestClosedLoopNeverExceedsItsSlots(t *testing.T) {
	virtual(func(t *testing.T) {
		e := newEngine(t, 2*time.Millisecond, 0)
		o := begin(
			t,
			enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 3, Requests: 30}, e), 0),
			ready.Limits{},
		).Wait(t)
		for _, s := range o.snapshots {
			if s.GetPeakInFlight() > 3 {
				t.Errorf("window %d: %d in flight", s.GetWindow(), s.GetPeakInFlight())
			}
		}
		for _, row := range o.rows {
			if row.GetStartNs() < row.GetScheduledNs() || row.GetScheduledNs() < 0 {
				t.Errorf("request %d was scheduled at %d and started at %d", row.GetIndex(), row.GetScheduledNs(),
					row.GetStartNs())
			}
		}
		if first := o.rows[0]; first.GetScheduledNs() != 0 {
			t.Errorf("the first request was scheduled at %d ns, not at the start", first.GetScheduledNs())
		}
		if o.Totals.SteadyFromNs == nil || o.Totals.GetSteadyFromNs() > o.Totals.GetSteadyToNs() {
			t.Errorf("steady from %v to %v", o.Totals.SteadyFromNs, o.Totals.SteadyToNs)
		}
	})(t)
}

func TestOpenLoopKeepsToItsSchedule(t *testing.T) {
	e := enginetest.New(t, time.Millisecond, 0)
	stage := enginetest.StageOf(&spatev1.LoadPoint{Rate: 400, Arrival: "poisson", Requests: 60, WarmupRequests: 5}, e)
	weights := []uint32{2, 1}
	var loads []*underWay
	for rank := range weights {
		loads = append(loads, begin(t, enginetest.AssignOf(stage, uint32(rank), weights...), ready.Limits{}))
	}
	var rows []*spatev1.RequestRecord
	for _, u := range loads {
		o := u.Wait(t)
		rows = append(rows, o.rows...)
		if n := o.histogram(t, spatev1.Metric_METRIC_SEND_DELAY).Count(); n != o.Totals.GetCounters().GetStarted() {
			t.Errorf("%d send delays of %d requests", n, o.Totals.GetCounters().GetStarted())
		}
	}
	slices.SortFunc(rows, func(a, b *spatev1.RequestRecord) int { return cmp.Compare(a.GetIndex(), b.GetIndex()) })
	alone, err := schedule.NewShare(&spatev1.Stripe{Weights: []uint32{1}})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := schedule.NewOpen(stage.GetLoad(), stage.GetSeed(), alone)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		a, more := plan.Next()
		if !more {
			if i != len(rows) {
				t.Fatalf("%d requests sent of %d", len(rows), i)
			}
			return
		}
		if i == len(rows) {
			t.Fatalf("only %d requests sent", i)
		}
		row := rows[i]
		if row.GetIndex() != a.Index || row.GetScheduledNs() != a.Offset.Nanoseconds() ||
			row.GetUnmeasured() != a.Unmeasured {
			t.Fatalf("request %d scheduled at %d, warm-up %t; the plan has %+v", row.GetIndex(), row.GetScheduledNs(),
				row.GetUnmeasured(), a)
		}
		if row.GetStartNs() < row.GetScheduledNs() {
			t.Fatalf("request %d started %d ns early", row.GetIndex(), row.GetScheduledNs()-row.GetStartNs())
		}
	}
}

// A server that serves one request at a time gets requests faster than that: the wait of its users shows only in times
// from the schedule. All times are a tenth of those of the published case.
func TestWaitShowsInTimesFromTheSchedule(t *testing.T) {
	virtual(func(t *testing.T) {
		e := newEngine(t, 50*time.Millisecond, 0)
		stage := enginetest.StageOf(&spatev1.LoadPoint{Rate: 100, Arrival: "constant", Requests: 8}, e)
		o := begin(t, enginetest.AssignOf(stage, 0), ready.Limits{MaxStreams: 1}).Wait(t)
		fromStart, fromSchedule := o.mean(t, spatev1.Metric_METRIC_E2E), o.mean(t, spatev1.Metric_METRIC_E2E_SCHEDULED)
		worst := float64(o.histogram(t, spatev1.Metric_METRIC_E2E_SCHEDULED).Percentile(99)) / 1e6
		if math.Abs(fromStart-50) > 1e-6 || math.Abs(fromSchedule-190) > 1e-6 || math.Abs(worst-330) > 3 {
			t.Errorf("mean from start %.3f ms, want 50; from schedule %.3f, want 190, p99 %.1f, want 330", fromStart,
				fromSchedule, worst)
		}
		// Times from the schedule exceed the server's time by the send delay.
		if delay := o.mean(t, spatev1.Metric_METRIC_SEND_DELAY); math.Abs(fromStart+delay-fromSchedule) > 1e-6 {
			t.Errorf("%.6f ms from start and %.6f of send delay are not %.6f", fromStart, delay, fromSchedule)
		}
		if o.snapshots[0].GetPeakInFlight() != 1 || o.Totals.GetNeverSent() != 0 {
			t.Errorf("%d in flight, %d never sent", o.snapshots[0].GetPeakInFlight(), o.Totals.GetNeverSent())
		}
	})(t)
}

func TestArrivalsWithoutAPlaceAreCountedAsNeverSent(t *testing.T) {
	for name, load := range map[string]*spatev1.LoadPoint{
		"by requests": {Rate: 100, Arrival: "constant", Requests: 5},
		"by duration": {Rate: 100, Arrival: "constant", Duration: durationpb.New(50 * time.Millisecond)},
	} {
		t.Run(name, virtual(func(t *testing.T) {
			stage := enginetest.StageOf(load, newEngine(t, time.Hour, 0))
			stage.DrainTimeout = durationpb.New(100 * time.Millisecond)
			o := begin(t, enginetest.AssignOf(stage, 0), ready.Limits{MaxStreams: 1}).Wait(t)
			c := o.Totals.GetCounters()
			if c.GetStarted() != 1 || c.GetCancelled() != 1 || o.Totals.GetNeverSent() != 4 || o.Totals.GetStopped() {
				t.Errorf("totals %v", o.Totals)
			}
		}))
	}
}

func TestDrainTimeoutCancelsWhatIsInFlight(t *testing.T) {
	virtual(func(t *testing.T) {
		stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 4, Requests: 3}, newEngine(t, time.Hour, 0))
		stage.DrainTimeout = durationpb.New(50 * time.Millisecond)
		o := begin(t, enginetest.AssignOf(stage, 0), ready.Limits{}).Wait(t)
		if c := o.Totals.GetCounters(); c.GetStarted() != 3 || c.GetCancelled() != 3 || c.GetFailed() != 0 {
			t.Errorf("counters %v", c)
		}
		if o.Totals.GetFailure() != "" || o.Totals.SteadyFromNs != nil {
			t.Errorf("totals %v", o.Totals)
		}
	})(t)
}

func TestStop(t *testing.T) {
	for name, c := range map[string]struct {
		load        *spatev1.LoadPoint
		delay       time.Duration
		immediately bool
		cancelled   bool
	}{
		"closed loop drains": {&spatev1.LoadPoint{Concurrency: 2, Requests: 100_000}, 20 * time.Millisecond,
			false, false},
		"closed loop is cancelled": {&spatev1.LoadPoint{Concurrency: 2, Duration: durationpb.New(time.Hour)},
			time.Hour, true, true},
		"open loop drains": {&spatev1.LoadPoint{Rate: 50, Arrival: "constant",
			Duration: durationpb.New(time.Hour)}, 20 * time.Millisecond, false, false},
		"open loop is cancelled": {&spatev1.LoadPoint{Rate: 50, Arrival: "poisson", Requests: 100_000}, time.Hour,
			true, true},
		"a random split is counted": {&spatev1.LoadPoint{Rate: 50, Arrival: "poisson", Split: "random",
			Requests: 1_000_000_000}, 0, false, false},
		"a sparse open loop is idle": {&spatev1.LoadPoint{Rate: 0.01, Arrival: "constant", Requests: 10}, 0,
			false, false},
	} {
		t.Run(name, virtual(func(t *testing.T) {
			e := newEngine(t, c.delay, 0)
			u := begin(t, enginetest.AssignOf(enginetest.StageOf(c.load, e), 0), ready.Limits{})
			enginetest.Eventually(t, "a request arrives", func() bool { return len(e.Requests()) > 0 })
			u.Stop(c.immediately, false)
			o := u.Wait(t)
			counters := o.Totals.GetCounters()
			if !o.Totals.GetStopped() || o.Totals.GetFailure() != "" || (counters.GetCancelled() > 0) != c.cancelled {
				t.Errorf("totals %v", o.Totals)
			}
			if counters.GetStarted() != counters.GetCompleted()+counters.GetCancelled() {
				t.Errorf("counters %v", counters)
			}
			if o.Totals.UnsentFromNs == nil {
				t.Error("it is not said from when on nothing was sent")
			}
			if n := c.load.GetRequests(); n > 0 && o.Totals.GetNeverSent() != n-counters.GetStarted() {
				t.Errorf("%d never sent of %d, %d started", o.Totals.GetNeverSent(), n, counters.GetStarted())
			}
		}))
	}
}

// TestStoppedHalvesOwnEachArrivalOnce: if a load is split at random, no agent knows its number of requests in advance.
// Stopped halfway, two agents together account for all requested ones.
func TestStoppedHalvesOwnEachArrivalOnce(t *testing.T) {
	virtual(func(t *testing.T) {
		const requests = 100_000
		stage := enginetest.StageOf(&spatev1.LoadPoint{Rate: 200, Arrival: "poisson", Split: "random", Requests: requests},
			newEngine(t, 0, 0))
		var loads []*underWay
		for rank := range uint32(2) {
			loads = append(loads, begin(t, enginetest.AssignOf(stage, rank, 1, 1), ready.Limits{}))
		}
		loads[1].at(t, 200*ms)
		all := uint64(0)
		for _, u := range loads {
			u.Stop(false, false)
			o := u.Wait(t)
			started, never := o.Totals.GetCounters().GetStarted(), o.Totals.GetNeverSent()
			if started == 0 || never < requests/2-1000 || never > requests/2+1000 {
				t.Errorf("%d started, %d never sent", started, never)
			}
			all += started + never
		}
		if all != requests {
			t.Errorf("%d arrivals in all, want %d", all, requests)
		}
	})(t)
}

// An agent that fails counts all that is left of its part as never sent, and reports when the first of it was due: the
// stage continues without it, and what it drains afterwards must not hide that. This is so for loads by time, too, and
// two agents together account for each arrival.
func TestWhatAFailedAgentLeavesIsNeverSent(t *testing.T) {
	const rate, arrivals = 200, 200
	for _, split := range []string{"", "random"} {
		t.Run("split "+split, virtual(func(t *testing.T) {
			e := newEngine(t, 300*time.Millisecond, 0)
			stage := enginetest.StageOf(&spatev1.LoadPoint{Rate: rate, Arrival: "constant", Split: split,
				Duration: durationpb.New(arrivals * time.Second / rate)}, e)
			var loads []*underWay
			for rank := range uint32(2) {
				loads = append(loads, begin(t, enginetest.AssignOf(stage, rank, 1, 1), ready.Limits{}))
			}
			loads[1].at(t, 200*ms)
			loads[1].Fail(spatev1.FailureKind_FAILURE_KIND_AGENT, false, "its lease has ended")
			sent := map[uint64]bool{}
			whole, failed := loads[0].Wait(t), loads[1].Wait(t)
			for _, row := range append(whole.rows, failed.rows...) {
				sent[row.GetIndex()] = true
			}
			if n := failed.Totals.GetNeverSent(); n == 0 || n+uint64(len(sent)) != arrivals {
				t.Errorf("%d of %d were sent, %d are said to be never sent", len(sent), arrivals, n)
			}
			first := uint64(0)
			for sent[first] {
				first++
			}
			due := time.Duration(first) * time.Second / rate
			if from := failed.Totals.UnsentFromNs; from == nil || time.Duration(*from) != due {
				t.Errorf("the first that was never sent was due at %v, it is said at %v", due, from)
			}
		}))
	}
}

// A closed loop that fails reports when its first slot was free and started nothing more. One that fails while it
// drains has started everything, and reports nothing.
func TestAFailedClosedLoopReportsItsFirstIdleSlot(t *testing.T) {
	const stream = 400 * time.Millisecond
	for name, c := range map[string]struct {
		load *spatev1.LoadPoint
		idle bool
	}{
		"by requests":                    {&spatev1.LoadPoint{Concurrency: 1, Requests: 10}, true},
		"by time":                        {&spatev1.LoadPoint{Concurrency: 1, Duration: durationpb.New(time.Hour)}, true},
		"by requests, which all started": {&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, false},
		"by time, which is over":         {&spatev1.LoadPoint{Concurrency: 1, Duration: durationpb.New(ms)}, false},
	} {
		t.Run(name, virtual(func(t *testing.T) {
			e := newEngine(t, stream, 0)
			u := begin(t, enginetest.AssignOf(enginetest.StageOf(c.load, e), 0), ready.Limits{})
			enginetest.Eventually(t, "a request arrives", func() bool { return len(e.Requests()) > 0 })
			u.at(t, 20*ms)
			u.Fail(spatev1.FailureKind_FAILURE_KIND_AGENT, false, "its lease has ended")
			o := u.Wait(t)
			last := o.rows[len(o.rows)-1].GetEndNs()
			switch from := o.Totals.UnsentFromNs; {
			case !c.idle && from != nil:
				t.Errorf("started everything, and is said to have been idle from %d ns on", *from)
			case c.idle && (from == nil || *from != last):
				t.Errorf("idle from %d ns on, it is said from %v on", last, from)
			}
		}))
	}
}

// TestStaggeredSlots: the slots of two agents spread their first requests evenly over the stagger, in turn. The stagger
// is not a send delay, and it is warm-up.
func TestStaggeredSlots(t *testing.T) {
	virtual(func(t *testing.T) {
		const slots, stagger = 10, 500 * ms
		stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: slots, Requests: 20, Stagger: span(stagger)},
			newEngine(t, 700*ms, 0))
		var loads []*underWay
		for rank := range uint32(2) {
			loads = append(loads, begin(t, enginetest.AssignOf(stage, rank, 3, 2), ready.Limits{}))
		}
		var first []int64
		measured := 0
		for _, u := range loads {
			o := u.Wait(t)
			for _, row := range o.rows {
				if row.GetScheduledNs() < stagger.Nanoseconds() {
					first = append(first, row.GetScheduledNs())
				}
				if row.GetUnmeasured() != (row.GetStartNs() < stagger.Nanoseconds()) {
					t.Errorf("the request that started at %v is unmeasured: %t", time.Duration(row.GetStartNs()),
						row.GetUnmeasured())
				}
				if !row.GetUnmeasured() {
					measured++
				}
			}
			if never := o.Totals.GetNeverSent(); never != 0 {
				t.Errorf("%d never sent", never)
			}
		}
		slices.Sort(first)
		want := make([]int64, slots)
		for u := range want {
			want[u] = int64(u) * (stagger / slots).Nanoseconds()
		}
		if !slices.Equal(first, want) {
			t.Errorf("slots were due at %v, want %v", first, want)
		}
		if measured != 20 {
			t.Errorf("%d measured, want 20", measured)
		}
	})(t)
}

func TestStopBeforeTheStart(t *testing.T) {
	for _, load := range []*spatev1.LoadPoint{{Concurrency: 2, Requests: 10},
		{Concurrency: 2, Requests: 10, Stagger: span(ms)}, {Rate: 10, Arrival: "constant", Requests: 10}} {
		stage := enginetest.StageOf(load, enginetest.New(t, 0, 0))
		s := prepare(t, enginetest.AssignOf(stage, 0), resourcesOf(ready.Limits{}))
		var last *spatev1.Snapshot
		l := New(s, Config{Start: clock.Now().Add(time.Hour), Emit: func(s *spatev1.Snapshot) { last = s }})
		l.Stop(false, false)
		l.Run()
		s.Close()
		if got := last.GetTotals(); got.GetNeverSent() != 10 || !got.GetStopped() ||
			got.GetCounters().GetStarted() != 0 || got.SteadyToNs != nil {
			t.Errorf("totals %v", got)
		}
	}
}

func TestTargetThatDiesEndsTheStage(t *testing.T) {
	t.Parallel()
	for name, load := range map[string]*spatev1.LoadPoint{
		"closed loop": {Concurrency: 4, Duration: durationpb.New(time.Hour)},
		"open loop":   {Rate: 100, Arrival: "constant", Duration: durationpb.New(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := enginetest.New(t, time.Millisecond, 0)
			u := begin(t, enginetest.AssignOf(enginetest.StageOf(load, e), 0), ready.Limits{})
			enginetest.Eventually(t, "a request arrives", func() bool { return len(e.Requests()) > 0 })
			e.Listener.Close()
			e.CloseClientConnections()
			o := u.Wait(t)
			if !strings.HasPrefix(o.Totals.GetFailure(), "target T is dead: no connection in ") ||
				o.Totals.GetStopped() ||
				o.Totals.GetFailureKind() != spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD {
				t.Errorf("failure %q", o.Totals.GetFailure())
			}
			if n := o.Totals.GetCounters().GetFailed(); n < deadFailures {
				t.Errorf("%d failures", n)
			}
		})
	}
}

func TestRefusedRequestsDoNotStopTheLoad(t *testing.T) {
	e := enginetest.New(t, 0, 429)
	o := begin(
		t,
		enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 2, Requests: 50}, e), 0),
		ready.Limits{},
	).Wait(t)
	if c := o.Totals.GetCounters(); c.GetFailed() != 50 || o.Totals.GetFailure() != "" {
		t.Errorf("totals %v", o.Totals)
	}
	if got := o.snapshots[0].GetSeries()[0].GetErrors()[0]; got.GetHttpStatus() != 429 {
		t.Errorf("error %v", got)
	}
}

func TestAgentsAreSentTheSameBodies(t *testing.T) {
	virtual(func(t *testing.T) {
		stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 3, Requests: 12}, newEngine(t, 0, 0))
		hashes := func(weights ...uint32) map[uint64]uint64 {
			all := map[uint64]uint64{}
			for rank := range weights {
				for _, row := range begin(t, enginetest.AssignOf(stage, uint32(rank), weights...),
					ready.Limits{}).Wait(t).rows {
					all[row.GetIndex()] = row.GetBodyHash()
				}
			}
			return all
		}
		if diff := gocmp.Diff(hashes(1), hashes(2, 1, 3)); diff != "" {
			t.Errorf("hashes by request (-one agent +three):\n%s", diff)
		}
	})(t)
}

// Which part of a mixture a request belongs to does not depend on the agents, and its measurements are those of its
// part.
func TestAgentsAreSentTheSameParts(t *testing.T) {
	virtual(func(t *testing.T) {
		stage := enginetest.StageOf(&spatev1.LoadPoint{Rate: 400, Arrival: "poisson", Split: "random", Requests: 60},
			newEngine(t, 0, 0), newEngine(t, 0, 0))
		mixTwo(stage)
		sent := func(agents int) map[uint64]string {
			all, weights := map[uint64]string{}, make([]uint32, agents)
			for rank := range weights {
				weights[rank] = uint32(1 + rank%3)
			}
			for rank := range weights {
				o := begin(t, enginetest.AssignOf(stage, uint32(rank), weights...), ready.Limits{}).Wait(t)
				byCell := map[[2]uint32]uint64{}
				for _, row := range o.rows {
					all[row.GetIndex()] = fmt.Sprintf("part %d, %x", row.GetPart(), row.GetBodyHash())
					byCell[[2]uint32{row.GetPart(), row.GetEndpoint()}]++
				}
				for _, s := range o.snapshots {
					for _, series := range s.GetSeries() {
						byCell[[2]uint32{series.GetPart(), series.GetEndpoint()}] -= series.GetCounters().GetCompleted()
					}
				}
				for cell, n := range byCell {
					if n != 0 {
						t.Errorf("%d agents: part %d and endpoint %d have %d requests more in rows than in series", agents,
							cell[0], cell[1], int64(n))
					}
				}
			}
			return all
		}
		one := sent(1)
		if n := strings.Count(fmt.Sprint(one), "part 0"); n != 36 || len(one) != 60 {
			t.Errorf("%d of %d requests belong to the first part, want 36 of 60", n, len(one))
		}
		for _, agents := range []int{3, 7} {
			if diff := gocmp.Diff(one, sent(agents)); diff != "" {
				t.Errorf("requests (-one agent +%d):\n%s", agents, diff)
			}
		}
	})(t)
}

// Requests of a part name its model, have its fields, and are good by its limits.
func TestPartsHaveTheirOwnModelsAndLimits(t *testing.T) {
	virtual(func(t *testing.T) {
		e := newEngine(t, 5*time.Millisecond, 0)
		e.KeepBodies = true
		stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 2, Requests: 20}, e)
		mixTwo(stage)
		own := stage.GetWorkload().GetMix().GetParts()[1]
		own.Model, own.Slo = "adapter", &spatev1.SLO{E2E: durationpb.New(time.Minute)}
		own.Body = &structpb.Struct{Fields: map[string]*structpb.Value{"top_k": structpb.NewNumberValue(3)}}
		stage.Slo = &spatev1.SLO{E2E: durationpb.New(time.Microsecond)}
		o := begin(t, enginetest.AssignOf(stage, 0), ready.Limits{}).Wait(t)
		named := 0
		for _, body := range e.Bodies() {
			own := strings.Contains(body, `"model":"adapter"`)
			if own {
				named++
			}
			if own != strings.Contains(body, `"top_k":3`) {
				t.Errorf("body %s", body)
			}
		}
		for _, row := range o.rows {
			if (row.GetModel() == "adapter") != (row.GetPart() == 1) {
				t.Errorf("request %d of part %d has the model %q", row.GetIndex(), row.GetPart(), row.GetModel())
			}
		}
		if good := o.Totals.GetCounters().GetGood(); named != 8 || good != 8 {
			t.Errorf("%d requests of 20 name the model of the second part, %d are good, want 8 and 8", named, good)
		}
	})(t)
}

// mixTwo makes a stage's workload two parts of a mixture, of weights 3 and 2.
func mixTwo(stage *spatev1.Stage) {
	m := &spatev1.Mixture{}
	for i, name := range []string{"a", "b"} {
		w := proto.CloneOf(stage.GetWorkload())
		w.Name = name
		m.Parts = append(m.Parts, &spatev1.Part{Weight: float64(3 - i), Workload: w})
	}
	stage.Workload = &spatev1.Workload{Name: "mixed", Content: &spatev1.Workload_Mix{Mix: m}}
}

// resourcesOf returns the resources of an agent with these limits and without a directory for datasets.
func resourcesOf(l ready.Limits) *ready.Resources {
	return &ready.Resources{Limits: l, Datasets: &store.Fetcher{}, Logger: slog.New(slog.DiscardHandler)}
}

// resourcesIn returns the resources of an agent with a directory for datasets.
func resourcesIn(dir string) *ready.Resources {
	r := resourcesOf(ready.Limits{})
	r.Datasets.Dir = dir
	return r
}

// The supervisor's lock comes before the load's locks: it is held while the load is told something, and taken by Emit.
// So no such call may wait for an Emit.
func TestCallsDoNotWaitForEmit(t *testing.T) {
	e := enginetest.New(t, 0, 0)
	for name, load := range map[string]*spatev1.LoadPoint{
		"closed": {Concurrency: 1, Requests: 1},
		"open":   {Rate: 1000, Arrival: "constant", Requests: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := prepare(t, enginetest.AssignOf(enginetest.StageOf(load, e), 0), resourcesOf(ready.Limits{}))
			defer s.Close()
			emitting, told := make(chan struct{}), make(chan struct{})
			l := New(s, Config{Start: clock.Now(), Emit: func(*spatev1.Snapshot) { close(emitting); <-told }})
			ended := make(chan struct{})
			go func() { defer close(ended); l.Run() }()
			<-emitting
			l.Measure(0, nil)
			l.SetFence(clock.Now())
			l.InFlight()
			l.AwaitsOthers()
			l.EndWait()
			l.Fail(spatev1.FailureKind_FAILURE_KIND_AGENT, true, "told")
			l.Stop(true, true)
			close(told)
			<-ended
		})
	}
}

// If starts come faster than one processor can do them, a goroutine that wakes among them runs before the last of them:
// the scheduler alone would run it after all.
func TestStartsLetOthersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const starts, apart, work = 400, 50 * time.Microsecond, 200 * time.Microsecond
	var all sync.WaitGroup
	var done, before atomic.Int64
	first := clock.Now().Add(20 * time.Millisecond)
	for i := range starts {
		all.Go(func() {
			var w worker
			w.wait(t.Context(), first.Add(time.Duration(i)*apart))
			for end := clock.Now().Add(work); clock.Now() < end; {
			}
			done.Add(1)
		})
	}
	all.Go(func() {
		<-time.After(clock.Until(first.Add(starts / 4 * apart)))
		before.Store(done.Load())
	})
	all.Wait()
	if n := before.Load(); n > starts/2 {
		t.Errorf("%d of %d starts were done before a goroutine that was ready after a quarter of them", n, starts)
	}
}

// id is the ID of a request of the stage that the tests run.
func id(index uint64, turn int) string { return measure.RequestIDsOf("run", 0).String(index, turn) }
