package executor

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/schedule"
)

// lostTwo hands the rank of the second of two agents over to the first.
func lostTwo(h *spatev1.Handover) *spatev1.Stripe {
	h.FromRank, h.Weights = 1, []uint32{1}
	return &spatev1.Stripe{Weights: []uint32{1, 1}, Handovers: []*spatev1.Handover{h}}
}

// at waits until that long after the load's start.
func (u *underWay) at(t *testing.T, since time.Duration) {
	t.Helper()
	enginetest.Eventually(t, "the time comes", func() bool { return clock.Now() >= u.start.Add(since) })
}

// indicesOf returns the arrivals of rows.
func indicesOf(rows []*spatev1.RequestRecord) (all []uint64) {
	for _, row := range rows {
		all = append(all, row.GetIndex())
	}
	slices.Sort(all)
	return all
}

// scheduleOf returns the arrivals of a stripe from the schedule alone.
func scheduleOf(t *testing.T, stage *spatev1.Stage, stripe *spatev1.Stripe) (all []uint64) {
	t.Helper()
	s, err := schedule.NewShare(stripe)
	if err != nil {
		t.Fatal(err)
	}
	o, err := schedule.NewOpen(stage.GetLoad(), stage.GetSeed(), s)
	if err != nil {
		t.Fatal(err)
	}
	for a, more := o.Next(); more; a, more = o.Next() {
		all = append(all, a.Index)
	}
	return all
}

// An open loop takes over what was due from a moment on, whenever it learns of that.
func TestOpenLoopTakesOver(t *testing.T) {
	const from = 150 * ms
	for name, c := range map[string]struct {
		load  *spatev1.LoadPoint
		delay time.Duration
		heard time.Duration // after the start
	}{
		"before the start": {&spatev1.LoadPoint{Rate: 200, Arrival: "poisson", Requests: 60}, 0, -time.Hour},
		"drawn": {&spatev1.LoadPoint{Rate: 200, Arrival: "poisson", Split: "random", Requests: 60},
			0, 100 * ms},
		"in time": {&spatev1.LoadPoint{Rate: 200, Arrival: "poisson", Requests: 60}, 0, 100 * ms},
		"in the warm-up": {&spatev1.LoadPoint{Rate: 200, Arrival: "constant", Requests: 30, WarmupRequests: 40},
			0, 60 * ms},
		"late":            {&spatev1.LoadPoint{Rate: 200, Arrival: "constant", Requests: 60}, 0, 220 * ms},
		"while it drains": {&spatev1.LoadPoint{Rate: 200, Arrival: "constant", Requests: 60}, 300 * ms, 400 * ms},
		"with a cool-down": {&spatev1.LoadPoint{Rate: 200, Arrival: "constant", Requests: 30,
			Cooldown: span(100 * ms)}, 0, 100 * ms},
		"through its phase": {&spatev1.LoadPoint{Arrival: "poisson", Phases: []*spatev1.Phase{phase(100, 300, 300*ms)}},
			0, 100 * ms},
	} {
		t.Run(name, virtual(func(t *testing.T) {
			stage := enginetest.StageOf(c.load, newEngine(t, c.delay, 0))
			u := begin(t, enginetest.AssignOf(stage, 0, 1, 1), ready.Limits{})
			u.at(t, c.heard)
			final := lostTwo(&spatev1.Handover{FromNs: from.Nanoseconds()})
			for range 2 { // it may be repeated
				if err := u.Revise(final); err != nil {
					t.Fatal(err)
				}
			}
			o := u.Wait(t)
			checkSchedule(t, o, stage, final)
			for _, row := range o.rows {
				if row.GetStartNs() < row.GetScheduledNs() {
					t.Errorf("request %d was sent early", row.GetIndex())
				}
			}
		}))
	}
}

// checkSchedule compares what was sent with the schedule of a stage by its last stripe: nothing is missing or
// cancelled.
func checkSchedule(t *testing.T, o outcome, stage *spatev1.Stage, final *spatev1.Stripe) {
	t.Helper()
	if diff := gocmp.Diff(scheduleOf(t, stage, final), indicesOf(o.rows)); diff != "" {
		t.Errorf("arrivals (-schedule +sent):\n%s", diff)
	}
	if c := o.Totals; c.GetNeverSent() != 0 || c.GetStopped() || c.GetFailure() != "" ||
		c.GetCounters().GetCancelled() != 0 {
		t.Errorf("totals %v", c)
	}
}

// Arrivals that an agent takes over keep their parts of the mixture.
func TestTakenOverArrivalsKeepTheirParts(t *testing.T) {
	virtual(func(t *testing.T) {
		stage := enginetest.StageOf(&spatev1.LoadPoint{Rate: 200, Arrival: "constant", Requests: 60}, newEngine(t, 0, 0))
		mixTwo(stage)
		want := map[uint64]uint32{}
		for _, row := range begin(t, enginetest.AssignOf(stage, 0, 1), ready.Limits{}).Wait(t).rows {
			want[row.GetIndex()] = row.GetPart()
		}
		u := begin(t, enginetest.AssignOf(stage, 0, 1, 1), ready.Limits{})
		if err := u.Revise(lostTwo(&spatev1.Handover{FromNs: (150 * ms).Nanoseconds()})); err != nil {
			t.Fatal(err)
		}
		rows := u.Wait(t).rows
		for _, row := range rows {
			if row.GetPart() != want[row.GetIndex()] {
				t.Errorf("arrival %d belongs to part %d, want %d", row.GetIndex(), row.GetPart(), want[row.GetIndex()])
			}
		}
		if len(rows) <= 30 || len(want) != 60 {
			t.Errorf("%d arrivals of %d: none was taken over", len(rows), len(want))
		}
	})(t)
}

// An agent with few arrivals waits for the end of the stage's schedule, because it may have to take over others.
func TestOpenLoopStaysUntilTheScheduleIsOver(t *testing.T) {
	virtual(func(t *testing.T) {
		stage := enginetest.StageOf(
			&spatev1.LoadPoint{Rate: 100, Arrival: "constant", Requests: 40},
			newEngine(t, 0, 0),
		)
		stage.OnAgentLoss = "reassign"
		u := begin(t, enginetest.AssignOf(stage, 0, 1, 39), ready.Limits{}) // its only arrival is number 19 or 20
		u.at(t, 300*ms)
		final := &spatev1.Stripe{Weights: []uint32{1, 39}, Handovers: []*spatev1.Handover{
			{FromRank: 1, Weights: []uint32{1}, FromNs: (350 * ms).Nanoseconds()},
		}}
		if err := u.Revise(final); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(scheduleOf(t, stage, final), indicesOf(u.Wait(t).rows)); diff != "" {
			t.Errorf("arrivals (-schedule +sent):\n%s", diff)
		}
	})(t)
}

// An agent that leaves an open loop sends what is due until the handover, waits for nothing to take over, and ends.
func TestLeavingAnOpenLoop(t *testing.T) {
	virtual(func(t *testing.T) {
		const from = 200 * ms
		stage := enginetest.StageOf(
			&spatev1.LoadPoint{Rate: 200, Arrival: "poisson", Duration: span(time.Hour)},
			newEngine(t, 5*ms, 0),
		)
		stage.OnAgentLoss = "reassign"
		u := begin(t, enginetest.AssignOf(stage, 1, 1, 1), ready.Limits{})
		final := lostTwo(&spatev1.Handover{FromNs: from.Nanoseconds()})
		final.Rank = 1
		u.at(t, 100*ms)
		if err := u.Revise(final); err != nil {
			t.Fatal(err)
		}
		u.Leave()
		o := u.Wait(t)
		checkSchedule(t, o, stage, final)
	})(t)
}

// An agent that leaves a closed loop ends what it has begun, and says what it leaves to others.
func TestLeavingAClosedLoop(t *testing.T) {
	virtual(func(t *testing.T) {
		stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 4, Requests: 1000000}, newEngine(t, 20*ms, 0))
		u := begin(t, enginetest.AssignOf(stage, 0), ready.Limits{})
		u.at(t, 200*ms)
		u.Leave()
		o := u.Wait(t)
		last := o.snapshots[len(o.snapshots)-1]
		if begun := last.GetStartedItems(); !last.GetLeft() || len(begun) != 1 || begun[0] != uint64(len(o.rows)) ||
			len(o.rows) < 4 {
			t.Errorf("left %v, begun %v, %d sent", last.GetLeft(), begun, len(o.rows))
		}
		if c := o.Totals; c.GetNeverSent() != 0 || c.GetStopped() || c.GetFailure() != "" ||
			c.GetCounters().GetCompleted() != uint64(len(o.rows)) {
			t.Errorf("totals %v", c)
		}
	})(t)
}

// One agent hands a part of its arrivals to an agent that joins mid-stage.
func TestJoiningAnOpenLoop(t *testing.T) {
	virtual(func(t *testing.T) {
		const from = 1500 * ms
		stage := enginetest.StageOf(
			&spatev1.LoadPoint{Rate: 100, Arrival: "poisson", Requests: 200},
			newEngine(t, 0, 0),
		)
		old := begin(t, enginetest.AssignOf(stage, 0), ready.Limits{})
		old.at(t, 1100*ms)
		s := prepare(t, enginetest.AssignOf(stage, 1), resourcesOf(ready.Limits{}))
		joined := startAt(t, s, old.start)
		stripe := func(rank uint32) *spatev1.Stripe {
			return &spatev1.Stripe{Weights: []uint32{1}, Rank: rank,
				Handovers: []*spatev1.Handover{{Weights: []uint32{2, 1}, FromNs: from.Nanoseconds()}}}
		}
		for rank, u := range []*underWay{old, joined} {
			if err := u.Revise(stripe(uint32(rank))); err != nil {
				t.Fatal(err)
			}
		}
		for rank, u := range []*underWay{old, joined} {
			o := u.Wait(t)
			if diff := gocmp.Diff(scheduleOf(t, stage, stripe(uint32(rank))), indicesOf(o.rows)); diff != "" {
				t.Errorf("arrivals of %d (-schedule +sent):\n%s", rank, diff)
			}
			if late := time.Duration(o.Totals.GetStartErrorNs()); late < 0 || late > 400*ms {
				t.Errorf("%d began %v late", rank, late)
			}
			for i, s := range o.snapshots {
				if s.GetWindow() != uint32(i) || s.FirstWindow != nil {
					t.Errorf("snapshot %d of %d is of window %d", i, rank, s.GetWindow())
				}
			}
		}
	})(t)
}

// An agent that joins late reports all earlier, empty windows at once.
func TestWindowsBeforeAJoin(t *testing.T) {
	virtual(func(t *testing.T) {
		stage := enginetest.StageOf(
			&spatev1.LoadPoint{Rate: 20, Arrival: "constant", Requests: 110},
			newEngine(t, 0, 0),
		)
		a := enginetest.AssignOf(stage, 1)
		a.Stripe.Handovers = []*spatev1.Handover{{Weights: []uint32{1, 1}, FromNs: (5 * time.Second).Nanoseconds()}}
		s := prepare(t, a, resourcesOf(ready.Limits{}))
		o := startAt(t, s, clock.Now().Add(-4900*ms)).Wait(t)
		first := o.snapshots[0]
		if first.FirstWindow == nil || first.GetFirstWindow() != 0 || first.GetWindow() != 3 ||
			len(first.GetSeries()) != 0 {
			t.Errorf("the first snapshot is %v", first)
		}
		if diff := gocmp.Diff(scheduleOf(t, stage, a.Stripe), indicesOf(o.rows)); diff != "" || len(o.rows) != 5 {
			t.Errorf("arrivals (-schedule +sent):\n%s", diff)
		}
	})(t)
}

func TestLateHandoverIsRejected(t *testing.T) {
	virtual(func(t *testing.T) {
		stage := enginetest.StageOf(
			&spatev1.LoadPoint{Rate: 200, Arrival: "constant", Requests: 80},
			newEngine(t, 0, 0),
		)
		u := begin(t, enginetest.AssignOf(stage, 0, 1, 1), ready.Limits{})
		u.at(t, 100*ms)
		give := func(from time.Duration) *spatev1.Stripe {
			return &spatev1.Stripe{Weights: []uint32{1, 1},
				Handovers: []*spatev1.Handover{{Weights: []uint32{0, 1}, FromNs: from.Nanoseconds()}}}
		}
		if err := u.Revise(give(50 * ms)); err == nil ||
			!strings.Contains(err.Error(), "handover 0 takes this agent's arrivals from 50ms on") {
			t.Errorf("too late: %v", err)
		}
		if err := u.Revise(&spatev1.Stripe{Weights: []uint32{2, 1}}); err == nil {
			t.Error("other weights were accepted")
		}
		if err := u.Revise(give(250 * ms)); err != nil {
			t.Fatal(err)
		}
		o := u.Wait(t)
		if diff := gocmp.Diff(scheduleOf(t, stage, give(250*ms)), indicesOf(o.rows)); diff != "" ||
			o.Totals.GetNeverSent() != 0 {
			t.Errorf("totals %v, arrivals (-schedule +sent):\n%s", o.Totals, diff)
		}
	})(t)
}

// Arrivals that were taken over, but not sent because the load was stopped, count as never sent.
func TestStopAfterARevision(t *testing.T) {
	for name, load := range map[string]*spatev1.LoadPoint{
		"open loop":   {Rate: 50, Arrival: "constant", Requests: 1000},
		"closed loop": {Concurrency: 2, Requests: 1000},
	} {
		t.Run(name, virtual(func(t *testing.T) {
			e := newEngine(t, 10*ms, 0)
			u := begin(t, enginetest.AssignOf(enginetest.StageOf(load, e), 0, 1, 1), ready.Limits{})
			enginetest.Eventually(t, "a request arrives", func() bool { return len(e.Requests()) > 0 })
			if err := u.Revise(lostTwo(&spatev1.Handover{})); err != nil {
				t.Fatal(err)
			}
			enginetest.Eventually(t, "some requests", func() bool { return len(e.Requests()) > 8 })
			u.Stop(false, false)
			if err := u.Revise(lostTwo(&spatev1.Handover{})); !errors.Is(err, errEnded) {
				t.Errorf("after the stop: %v", err)
			}
			o := u.Wait(t)
			if n := o.Totals.GetCounters().GetStarted(); n+o.Totals.GetNeverSent() != 1000 || !o.Totals.GetStopped() {
				t.Errorf("totals %v", o.Totals)
			}
		}))
	}
}

// A closed loop takes over slots at once, with all of their requests that have not started.
func TestClosedLoopTakesOver(t *testing.T) {
	for name, c := range map[string]struct {
		load  *spatev1.LoadPoint
		delay time.Duration
		heard int // requests begun
		begun []uint64
	}{
		"before the start": {&spatev1.LoadPoint{Concurrency: 4, Requests: 60}, ms, 0, []uint64{0}},
		"in the middle":    {&spatev1.LoadPoint{Concurrency: 4, Requests: 60}, 5 * ms, 10, []uint64{7}},
		"in the warm-up": {&spatev1.LoadPoint{Concurrency: 4, Requests: 40, WarmupRequests: 20}, 5 * ms, 4,
			[]uint64{7}},
		"while it drains": {&spatev1.LoadPoint{Concurrency: 4, Requests: 24}, 100 * ms, 12, []uint64{4}},
		"in the cool-down": {&spatev1.LoadPoint{Concurrency: 4, Requests: 24, Cooldown: span(200 * ms)}, 20 * ms,
			14, []uint64{4}},
		"with a warm-up by time": {&spatev1.LoadPoint{Concurrency: 4, Requests: 60, WarmupDuration: span(50 * ms)},
			5 * ms, 10, []uint64{7, 3}},
		"with slots that rest": {&spatev1.LoadPoint{Concurrency: 4, Requests: 60,
			ThinkTime: &spatev1.ThinkTime{Mean: span(5 * ms)}}, ms, 10, []uint64{7}},
		"of one that was done":    {&spatev1.LoadPoint{Concurrency: 4, Requests: 60}, 5 * ms, 10, []uint64{30}},
		"without any request yet": {&spatev1.LoadPoint{Concurrency: 4, Requests: 60}, 5 * ms, 10, nil},
	} {
		t.Run(name, virtual(func(t *testing.T) {
			e := newEngine(t, c.delay, 0)
			stage := enginetest.StageOf(c.load, e)
			u := begin(t, enginetest.AssignOf(stage, 0, 1, 1), ready.Limits{})
			enginetest.Eventually(t, "requests", func() bool { return len(e.Requests()) >= c.heard })
			if err := u.Revise(lostTwo(&spatev1.Handover{FromItems: c.begun})); err != nil {
				t.Fatal(err)
			}
			o := u.Wait(t)
			if o.Totals.GetNeverSent() != 0 || o.Totals.GetCounters().GetCancelled() != 0 || o.Totals.GetStopped() {
				t.Errorf("totals %v", o.Totals)
			}
			checkTakenOver(t, o, c.load, c.begun)
		}))
	}
}

// checkTakenOver checks the requests of two equal agents, of which the second had started some.
func checkTakenOver(t *testing.T, o outcome, load *spatev1.LoadPoint, begun []uint64) {
	t.Helper()
	owed, from := load.GetRequests(), uint64(0)
	if len(begun) > 0 {
		from = begun[0]
		owed -= min(from, owed/2)
		if load.WarmupRequests > 0 {
			owed += min(from, load.WarmupRequests/2)
		}
	}
	if len(begun) > 1 {
		owed += begun[1]
	}
	if n := o.Totals.GetCounters().GetCompleted(); n != owed {
		t.Errorf("%d requests measured, want %d", n, owed)
	}
	seen := map[uint64]bool{}
	for _, row := range o.rows {
		i := row.GetIndex()
		if seen[i] || i%2 == 1 && i/2 < from {
			t.Errorf("request %d was sent twice, or begun by the one that was lost", i)
		}
		seen[i] = true
	}
	if last := o.snapshots[len(o.snapshots)-1].GetStartedItems(); len(last) != 2*max(len(begun), 1) {
		t.Errorf("the last snapshot says of two lists %v", last)
	}
}

// Slots beyond the agent's limit are refused, and the load continues as before.
func TestTakingOverKeepsToTheLimits(t *testing.T) {
	virtual(func(t *testing.T) {
		e := newEngine(t, 2*ms, 0)
		stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 4, Requests: 40}, e)
		u := begin(t, enginetest.AssignOf(stage, 0, 1, 1), ready.Limits{MaxStreams: 3})
		if err := u.Revise(lostTwo(&spatev1.Handover{})); err == nil ||
			!strings.Contains(err.Error(), "4 requests in flight") {
			t.Errorf("got %v", err)
		}
		if o := u.Wait(t); o.Totals.GetCounters().GetCompleted() != 20 {
			t.Errorf("totals %v", o.Totals)
		}
	})(t)
}

// A load that has ended takes nothing over, and returns an error.
func TestTakingOverAfterTheEnd(t *testing.T) {
	virtual(func(t *testing.T) {
		for name, load := range map[string]*spatev1.LoadPoint{
			"open loop": {Rate: 100, Arrival: "constant", Requests: 4}, "closed loop": {Concurrency: 2, Requests: 4},
		} {
			u := begin(t, enginetest.AssignOf(enginetest.StageOf(load, newEngine(t, 0, 0)), 0, 1, 1), ready.Limits{})
			u.Wait(t)
			if err := u.Revise(lostTwo(&spatev1.Handover{})); !errors.Is(err, errEnded) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})(t)
}

// Revisions come while requests start and end.
func TestRevisionsAmidTheLoad(t *testing.T) {
	for name, load := range map[string]*spatev1.LoadPoint{
		"open loop": {Rate: 1000, Arrival: "poisson", Requests: 400}, "closed loop": {Concurrency: 20, Requests: 2000},
	} {
		t.Run(name, virtual(func(t *testing.T) {
			weights := []uint32{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
			e := newEngine(t, 0, 0)
			u := begin(t, enginetest.AssignOf(enginetest.StageOf(load, e), 0, weights...), ready.Limits{})
			stripe := &spatev1.Stripe{Weights: weights}
			for from := uint32(1); from < 10; from++ {
				enginetest.Eventually(t, "requests", func() bool { return len(e.Requests()) >= int(from) })
				stripe = &spatev1.Stripe{Weights: weights, Handovers: append(slices.Clone(stripe.Handovers),
					&spatev1.Handover{FromRank: from, Weights: []uint32{1}})}
				if err := u.Revise(stripe); err != nil {
					t.Fatal(err)
				}
			}
			o := u.Wait(t)
			if n := o.Totals.GetCounters().GetCompleted(); n != load.GetRequests() || o.Totals.GetNeverSent() != 0 {
				t.Errorf("totals %v", o.Totals)
			}
			if all := indicesOf(o.rows); len(slices.Compact(all)) != int(load.GetRequests()) {
				t.Errorf("%d different requests", len(slices.Compact(all)))
			}
		}))
	}
}
