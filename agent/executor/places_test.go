package executor

import (
	"strings"
	"testing"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/ready"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// crowd is a load of two agents that is far above what a server of 10 ms can take with their two places.
func crowd() *spatev1.LoadPoint {
	return &spatev1.LoadPoint{Rate: 2000, Arrival: "constant", Requests: 40, WarmupRequests: 4, MaxInFlight: 2}
}

// A request is held back until the one before it has ended, and no longer: the rest of the time up to its start is a
// send delay. Times from the schedule include both, to the nanosecond.
func TestMaxInFlightHoldsBack(t *testing.T) {
	virtual(func(t *testing.T) {
		stage := enginetest.StageOf(crowd(), newEngine(t, 10*ms, 0))
		stage.DrainTimeout = span(100 * ms) // all are sent, although that takes longer than this after the last was due
		loads := []*underWay{
			begin(t, enginetest.AssignOf(stage, 0, 1, 1), ready.Limits{}),
			begin(t, enginetest.AssignOf(stage, 1, 1, 1), ready.Limits{}),
		}
		sent := 0
		for _, u := range loads {
			o := u.Wait(t)
			if len(o.rows) != 22 || o.Totals.GetNeverSent() != 0 || o.snapshots[0].GetPeakInFlight() != 1 {
				t.Fatalf("%d requests, %d in flight, totals %v", len(o.rows), o.snapshots[0].GetPeakInFlight(), o.Totals)
			}
			sent += len(o.rows)
			measured := uint64(0)
			for i, row := range o.rows[1:] {
				if want := o.rows[i].GetEndNs() - row.GetScheduledNs(); row.GetHeldNs() != want {
					t.Errorf("request %d was held for %d ns, but its place was free after %d", row.GetIndex(),
						row.GetHeldNs(), want)
				}
				if !row.GetUnmeasured() {
					measured++
				}
			}
			if o.rows[0].HeldNs != nil {
				t.Errorf("the first request was held for %d ns", o.rows[0].GetHeldNs())
			}
			held := o.histogram(t, spatev1.Metric_METRIC_HELD)
			if held.Count() != measured {
				t.Errorf("%d requests held, want %d", held.Count(), measured)
			}
			delay := o.mean(t, spatev1.Metric_METRIC_SEND_DELAY)
			off := o.mean(t, spatev1.Metric_METRIC_E2E) + delay + o.mean(t, spatev1.Metric_METRIC_HELD) -
				o.mean(t, spatev1.Metric_METRIC_E2E_SCHEDULED)
			if off > 1e-6 || off < -1e-6 {
				t.Errorf("E2E, send delay and time held are %.6f ms more than E2E from the schedule", off)
			}
		}
		if sent != 44 {
			t.Errorf("%d requests", sent)
		}
	})(t)
}

// Below the limit nothing is held back, and the loop is open.
func TestMaxInFlightLeavesALightLoadAlone(t *testing.T) {
	virtual(func(t *testing.T) {
		load := &spatev1.LoadPoint{Rate: 200, Arrival: "constant", Requests: 20, MaxInFlight: 20}
		o := begin(t, enginetest.AssignOf(enginetest.StageOf(load, newEngine(t, 0, 0)), 0), ready.Limits{}).Wait(t)
		for _, row := range o.rows {
			if row.HeldNs != nil {
				t.Errorf("request %d was held for %d ns", row.GetIndex(), row.GetHeldNs())
			}
		}
		if len(o.rows) != 20 {
			t.Errorf("%d requests", len(o.rows))
		}
	})(t)
}

// A load that ends by its duration sends what it holds back for the drain timeout longer. The rest is never sent. A
// server that answers nothing frees no place, so that a load by requests ends, too.
func TestWhatIsHeldBackForTooLongIsNeverSent(t *testing.T) {
	for name, c := range map[string]struct {
		load *spatev1.LoadPoint
		slow bool
	}{
		"by duration": {load: &spatev1.LoadPoint{Rate: 2000, Arrival: "constant", Duration: span(100 * ms), MaxInFlight: 1}},
		"by requests": {&spatev1.LoadPoint{Rate: 2000, Arrival: "constant", Requests: 200, MaxInFlight: 1}, true},
	} {
		t.Run(name, virtual(func(t *testing.T) {
			takes := 10 * ms
			if c.slow {
				takes = 1000 * ms * 3600
			}
			stage := enginetest.StageOf(c.load, newEngine(t, takes, 0))
			stage.DrainTimeout = span(200 * ms)
			o := begin(t, enginetest.AssignOf(stage, 0), ready.Limits{}).Wait(t)
			started, never := o.Totals.GetCounters().GetStarted(), o.Totals.GetNeverSent()
			if started+never != 200 || started == 0 || never == 0 || c.slow != (started == 1) || o.Totals.GetStopped() {
				t.Errorf("totals %v", o.Totals)
			}
		}))
	}
}

// With the arrivals of a lost agent, another takes over its places, while it waits for one.
func TestPlacesAreTakenOver(t *testing.T) {
	virtual(func(t *testing.T) {
		stage := enginetest.StageOf(crowd(), newEngine(t, 10*ms, 0))
		u := begin(t, enginetest.AssignOf(stage, 0, 1, 1), ready.Limits{MaxStreams: 2})
		u.at(t, 15*ms)
		if err := u.Revise(lostTwo(&spatev1.Handover{})); err != nil {
			t.Fatal(err)
		}
		o := u.Wait(t)
		if n := o.Totals.GetCounters().GetCompleted(); n != 40 || o.snapshots[0].GetPeakInFlight() != 2 ||
			o.Totals.GetNeverSent() != 0 {
			t.Errorf("%d in flight, totals %v", o.snapshots[0].GetPeakInFlight(), o.Totals)
		}
		for _, row := range o.rows {
			if row.GetHeldNs() < 0 || row.GetScheduledNs()+row.GetHeldNs() > row.GetStartNs() {
				t.Errorf("request %d, scheduled at %d, was held for %d ns and started at %d", row.GetIndex(),
					row.GetScheduledNs(), row.GetHeldNs(), row.GetStartNs())
			}
		}
	})(t)
}

// Places beyond the agent's limit are refused, and the load continues as before.
func TestTakingOverPlacesKeepsToTheLimits(t *testing.T) {
	virtual(func(t *testing.T) {
		stage := enginetest.StageOf(crowd(), newEngine(t, 2*ms, 0))
		u := begin(t, enginetest.AssignOf(stage, 0, 1, 1), ready.Limits{MaxStreams: 1})
		if err := u.Revise(lostTwo(&spatev1.Handover{})); err == nil ||
			!strings.Contains(err.Error(), "2 requests in flight") {
			t.Errorf("got %v", err)
		}
		if o := u.Wait(t); o.Totals.GetCounters().GetCompleted() != 20 {
			t.Errorf("totals %v", o.Totals)
		}
	})(t)
}

// An agent whose part of the limit is nothing could never send its arrivals, and one that may not hold its part would
// hold back more than the plan says.
func TestPlacesMustFit(t *testing.T) {
	load := crowd()
	load.MaxInFlight = 1
	e := enginetest.New(t, 0, 0)
	for want, c := range map[string]struct {
		rank uint32
		most uint32
	}{"leaves this agent none": {1, 0}, "up to 3 requests in flight, this agent's limit is 2": {0, 2}} {
		if c.rank == 0 {
			load.MaxInFlight = 6
		} else {
			load.MaxInFlight = 1
		}
		_, err := ready.Prepare(t.Context(), enginetest.AssignOf(enginetest.StageOf(load, e), c.rank, 1, 1), nil,
			resourcesOf(ready.Limits{MaxStreams: c.most}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
