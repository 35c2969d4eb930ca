package results

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/trust"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// What a lost agent delivered for windows before its loss stays, and nothing later is merged: for any snapshots in any
// order, merged live or from the ledger.
func TestALostPartChangesNothingBeforeItsLoss(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rec := fixture.StageRecord(0, 3)
		requests := anyRequests(rt, 3)
		all := fixture.Recorded(rec, requests, fixture.EndWindow)
		from := rapid.Uint32Range(0, 8).Draw(rt, "from window")
		isLate := func(s *spatev1.Snapshot) bool { return s.GetKey().GetAgent() == "b" && s.GetWindow() >= from }
		before := slices.DeleteFunc(slices.Clone(all), isLate)

		lost := proto.CloneOf(rec)
		lost.Agents[1].Loss = &spatev1.Loss{FromWindow: from, Share: 0.25}
		if rapid.Bool().Draw(rt, "taken over") {
			lost.Agents[1].Loss.TakenOverNs = new(int64(from+4) * 1e9)
		}
		want := resultJSON(t, merged(t, lost, before), lost)

		live, replayed := merge.NewStage(rec), merge.NewStage(lost)
		for _, s := range rapid.Permutation(before).Draw(rt, "order") {
			if err := live.Add(s); err != nil {
				rt.Fatal(err)
			}
		}
		live.Update(lost)
		for _, s := range rapid.Permutation(all).Draw(rt, "order of the ledger") {
			if err := replayed.Add(s); err != nil {
				rt.Fatal(err)
			}
			_, refused := merge.Check(s, fixture.RunRecord(1), lost)
			if isLate(s) == merge.InResult(lost, s) || isLate(s) != (refused != nil) {
				rt.Fatalf("window %d of %s", s.GetWindow(), s.GetKey().GetAgent())
			}
			if !isLate(s) {
				continue // live already has this snapshot
			}
			if err := live.Add(s); err != nil {
				rt.Fatal(err)
			}
		}
		for name, s := range map[string]*merge.Stage{"live": live, "replayed": replayed} {
			if got := resultJSON(t, s, lost); got != want {
				rt.Fatalf("%s:\n%s", name, cmp.Diff(want, got))
			}
		}
	})
}

// lostStage returns a stage of 5 s with agents a and b, of which b was lost, and the snapshots before the loss.
func lostStage(
	loss *spatev1.Loss, change func(*spatev1.StageRecord, *spatev1.Totals),
) (*spatev1.StageRecord, []*spatev1.Snapshot) {
	rec := fixture.StageRecord(0, 2)
	all := fixture.Recorded(rec, fixture.SteadyRequests(2, 50), fixture.EndWindow)
	rec.Agents[1].Loss = loss
	rec.Stage.Load = &spatev1.LoadPoint{Concurrency: 8, Duration: durationpb.New(5 * time.Second)}
	change(rec, all[len(all)-1].GetTotals())
	return rec, slices.DeleteFunc(all, func(s *spatev1.Snapshot) bool { return !merge.InResult(rec, s) })
}

// Only the remedy for a lost agent names on_agent_loss. A loss that failed the run is in the ledger as a failure
// without totals; a stopped stage lost no agent.
func TestOnlyALostAgentHasTheRemedyOfALoss(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*spatev1.StageRecord)
		totals bool
		want   bool
	}{
		"lost":             {func(r *spatev1.StageRecord) { r.Agents[1].Loss = &spatev1.Loss{FromWindow: 2} }, true, true},
		"failed the run":   {func(r *spatev1.StageRecord) { r.Agents[1].Failure = "lost: silent" }, false, true},
		"failed by itself": {func(r *spatev1.StageRecord) { r.Agents[1].Failure = "no memory" }, true, false},
		"stopped":          {func(r *spatev1.StageRecord) { r.Stopped = true }, true, false},
		"never started": {func(r *spatev1.StageRecord) {
			r.StartTime, r.Failure, r.Agents[1].Failure = nil, "connection refused", "connection refused"
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			rec, snapshots := lostStage(nil, func(r *spatev1.StageRecord, _ *spatev1.Totals) { c.change(r) })
			if !c.totals {
				snapshots = slices.DeleteFunc(snapshots, func(s *spatev1.Snapshot) bool {
					return s.GetTotals() != nil && s.GetKey().GetAgent() == "b"
				})
			}
			checks := OfStage(merged(t, rec, snapshots), rec).Trust.Checks
			i := slices.IndexFunc(checks, func(k trust.Check) bool { return k.Name == "completeness" })
			if got := checks[i].Remedy; got == nil || strings.Contains(*got, "on_agent_loss") != c.want {
				t.Errorf("%q: remedy %v, want that of a loss: %t", checks[i].Words, got, c.want)
			}
		})
	}
}

// lossCase is the loss of agent b, what else is changed, and what a result says about it.
type lossCase struct {
	loss   *spatev1.Loss
	change func(*spatev1.StageRecord, *spatev1.Totals)
	want   []string
	result *Loss
}

func unchanged(*spatev1.StageRecord, *spatev1.Totals) {}

// testLosses checks what results say about losses.
func testLosses(t *testing.T, cases map[string]lossCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			rec, snapshots := lostStage(c.loss, c.change)
			r := OfStage(merged(t, rec, snapshots), rec)
			if diff := cmp.Diff(c.want, r.Missing); diff != "" || r.Complete {
				t.Errorf("complete %v, missing:\n%s", r.Complete, diff)
			}
			if diff := cmp.Diff(c.result, r.Agents[1].Loss); diff != "" || r.Agents[0].Loss != nil {
				t.Errorf("loss:\n%s", diff)
			}
		})
	}
}

func TestALossThatWasTakenOverIsMissingUpToThen(t *testing.T) {
	testLosses(t, map[string]lossCase{
		"taken over": {
			&spatev1.Loss{FromWindow: 2, Share: 0.25, TakenOverNs: new(int64(4e9))}, unchanged,
			[]string{"agent b (25 % of the load) lost: seconds 2 to 4 are missing, then taken over"},
			&Loss{Share: 0.25, FromS: 2, ToS: new(4.0), TakenOver: true},
		},
		"with a reason": {
			&spatev1.Loss{FromWindow: 0, Share: 1.0 / 3, TakenOverNs: new(int64(1.52e9))},
			func(rec *spatev1.StageRecord, _ *spatev1.Totals) { rec.Agents[1].Failure = "lost: silent for 3.5s" },
			[]string{"agent b (33.3 % of the load) lost: seconds 0 to 1.52 are missing, then taken over " +
				"(silent for 3.5s)"},
			&Loss{Share: 1.0 / 3, ToS: new(1.52), TakenOver: true},
		},
		"taken over at once": {
			&spatev1.Loss{FromWindow: 2, Share: 0.5, TakenOverNs: new(int64(1.9e9))}, unchanged,
			[]string{"agent b (50 % of the load) lost: what it had not delivered by second 2 is missing, " +
				"the rest was taken over at once"},
			&Loss{Share: 0.5, FromS: 2, ToS: new(1.9), TakenOver: true},
		},
		"taken over after it drained": {
			&spatev1.Loss{FromWindow: 4, Share: 0.5, UnsentFromWindow: new(uint32(1)), TakenOverNs: new(int64(5e9))},
			func(_ *spatev1.StageRecord, t *spatev1.Totals) { t.NeverSent = 255 },
			[]string{"agent b (50 % of the load) lost: seconds 4 to 5 are missing, then taken over; " +
				"it never sent requests, due from second 1 on"},
			&Loss{Share: 0.5, FromS: 4, ToS: new(5.0), TakenOver: true, UnsentFromS: new(1.0)},
		},
		"restarted": {
			&spatev1.Loss{FromWindow: 1, Share: 0.5, TakenOverNs: new(int64(3e9))},
			func(rec *spatev1.StageRecord, _ *spatev1.Totals) {
				again := proto.CloneOf(rec.GetAgents()[1])
				again.Incarnation, again.Loss, again.JoinedNs = 2, nil, 4e9
				rec.Agents = append(rec.Agents, again)
			},
			[]string{
				"agent b (50 % of the load) lost: seconds 1 to 3 are missing, then taken over",
				"agent b, process 2 of this name sent no totals",
			},
			&Loss{Share: 0.5, FromS: 1, ToS: new(3.0), TakenOver: true},
		},
	})
}

func TestALossThatWasNotTakenOverIsMissingToTheEnd(t *testing.T) {
	testLosses(t, map[string]lossCase{
		"to the end": {
			&spatev1.Loss{FromWindow: 3, Share: 0.5}, unchanged,
			[]string{"agent b (50 % of the load) lost: all is missing from second 3 on"},
			&Loss{Share: 0.5, FromS: 3, ToS: new(5.0)},
		},
		"its part ends with its own requests": {
			&spatev1.Loss{FromWindow: 3, Share: 0.5},
			func(rec *spatev1.StageRecord, _ *spatev1.Totals) {
				rec.Stage.Load = &spatev1.LoadPoint{Concurrency: 2, Requests: 200}
			},
			[]string{"agent b (50 % of the load) lost: all is missing from second 3 on"},
			&Loss{Share: 0.5, FromS: 3},
		},
		"to the end, and it stood still before": {
			&spatev1.Loss{FromWindow: 3, Share: 0.5, UnsentFromWindow: new(uint32(1))},
			unchanged,
			[]string{"agent b (50 % of the load) lost: all is missing from second 3 on; " +
				"it never sent requests, due from second 1 on"},
			&Loss{Share: 0.5, FromS: 3, ToS: new(5.0), UnsentFromS: new(1.0)},
		},
		"all delivered, and it stood still before": {
			&spatev1.Loss{FromWindow: 5, Share: 0.5, UnsentFromWindow: new(uint32(0))},
			func(_ *spatev1.StageRecord, t *spatev1.Totals) { t.NeverSent = 255 },
			[]string{"agent b (50 % of the load) lost: what it had not delivered by second 5, the last, is missing; " +
				"it never sent 255 requests, due from second 0 on"},
			&Loss{Share: 0.5, FromS: 5, ToS: new(5.0), UnsentFromS: new(0.0)},
		},
		"at the end, all delivered": {
			&spatev1.Loss{FromWindow: 5, Share: 0.5},
			func(_ *spatev1.StageRecord, t *spatev1.Totals) { t.Failure = "its lease has ended" },
			[]string{"agent b (50 % of the load) lost: what it had not delivered by second 5, the last, is missing " +
				"(its lease has ended)"},
			&Loss{Share: 0.5, FromS: 5, ToS: new(5.0)},
		},
		"all delivered, but not as it says": {
			&spatev1.Loss{FromWindow: 5, Share: 0.5},
			func(_ *spatev1.StageRecord, t *spatev1.Totals) { t.Counters.Completed++ },
			[]string{
				"agent b (50 % of the load) lost: what it had not delivered by second 5, the last, is missing",
				"agent b has completed 50 in its snapshots, but 51 in its totals",
			},
			&Loss{Share: 0.5, FromS: 5, ToS: new(5.0)},
		},
	})
}

// If every agent is lost and no one takes over, the rest of the load was never sent: the last measurement is not the
// end of what is missing.
func TestALossOfAllAgentsHasNoEnd(t *testing.T) {
	rec := fixture.StageRecord(0, 2)
	all := fixture.Recorded(rec, fixture.SteadyRequests(2, 50), fixture.EndWindow)
	for i, a := range rec.GetAgents() {
		a.Loss = &spatev1.Loss{FromWindow: uint32(2 + i), Share: 0.5}
	}
	all = slices.DeleteFunc(all, func(s *spatev1.Snapshot) bool { return !merge.InResult(rec, s) })
	r := OfStage(merged(t, rec, all), rec)
	want := []string{
		"agent a (50 % of the load) lost: all is missing from second 2 on",
		"agent b (50 % of the load) lost: all is missing from second 3 on",
	}
	if diff := cmp.Diff(want, r.Missing); diff != "" || r.Agents[0].Loss.ToS != nil || r.Agents[1].Loss.ToS != nil {
		t.Errorf("losses %+v and %+v, missing:\n%s", r.Agents[0].Loss, r.Agents[1].Loss, diff)
	}
}

func TestALossWithoutMeasurementsIsAll(t *testing.T) {
	rec := fixture.StageRecord(0, 1)
	rec.Agents[0].Loss = &spatev1.Loss{Share: 1}
	want := []string{"agent a (100 % of the load) lost: all is missing from second 0 on"}
	if got := OfStage(merge.NewStage(rec), rec).Missing; !slices.Equal(got, want) {
		t.Errorf("missing %q", got)
	}
}

// The load is complete before a loss, and again after other agents took over the stripe.
func TestSteadyPartOfAStageWithALoss(t *testing.T) {
	for name, c := range map[string]struct {
		taken  *int64
		totals bool // the lost agent sent totals
		want   *Steady
		owed   bool // the number of requests never sent is known
	}{
		"taken over": {new(int64(3e9)), false,
			&Steady{FromS: 3, ToS: 5, DurationS: 2, RequestThroughput: 10, OutputTokenThroughput: new(40.0)}, false},
		"taken over, all delivered": {new(int64(3e9)), true,
			&Steady{FromS: 3, ToS: 5, DurationS: 2, RequestThroughput: 10, OutputTokenThroughput: new(40.0)}, false},
		"missing": {nil, false, nil, false},
		"missing, all else delivered": {nil, true, &Steady{FromS: 1, ToS: 2, DurationS: 1, RequestThroughput: 20,
			OutputTokenThroughput: new(80.0)}, true},
	} {
		rec, all := fixture.StageRecord(0, 2), []*spatev1.Snapshot(nil)
		for _, s := range fixture.Recorded(rec, fixture.SteadyRequests(2, 50), fixture.EndWindow) {
			if s.GetTotals() != nil {
				s.Totals.SteadyFromNs, s.Totals.SteadyToNs = new(int64(0.5e9)), new(int64(5e9))
			}
			if s.GetKey().GetAgent() == "b" && s.GetWindow() == 1 && c.totals {
				s.Totals = &spatev1.Totals{Counters: &spatev1.Counters{Started: 20}, SteadyFromNs: new(int64(0.5e9))}
			}
			all = append(all, s)
		}
		rec.Agents[1].Loss = &spatev1.Loss{FromWindow: 2, Share: 0.5, TakenOverNs: c.taken}
		stage := merge.NewStage(rec)
		for _, s := range all {
			if err := stage.Add(s); err != nil {
				t.Fatal(err)
			}
		}
		r := OfStage(stage, rec)
		if diff := cmp.Diff(c.want, r.Steady); diff != "" || (r.Requests.NeverSent != nil) != c.owed {
			t.Errorf("%s: never sent %v, steady:\n%s", name, r.Requests.NeverSent, diff)
		}
		if _, ok := stage.Flow(); ok {
			t.Errorf("%s: a flow of what never ended", name)
		}
	}
}

// An agent that joined contributes from then on. A process that is not in the record does not contribute.
func TestJoinedAgentsContribute(t *testing.T) {
	rec := fixture.StageRecord(0, 1)
	stage := merge.NewStage(rec)
	s := fixture.SnapshotOf(0, "a", 2, 1)
	s.Window, s.PeakInFlight = 3, 7
	s.Series = []*spatev1.Series{{Counters: &spatev1.Counters{Started: 5}}}
	if err := stage.Add(s); err == nil {
		t.Error("a process that takes no part is merged")
	}
	rec.Agents = append(rec.Agents, proto.CloneOf(rec.GetAgents()[0]))
	rec.Agents[1].Incarnation, rec.Agents[1].JoinedNs = 2, 2.5e9
	stage.Update(rec)
	if err := stage.Add(s); err != nil {
		t.Fatal(err)
	}
	first := proto.CloneOf(s)
	first.Key.Incarnation = 1
	if err := stage.Add(first); err != nil {
		t.Fatal(err)
	}
	r := OfStage(stage, rec)
	if *r.Agents[1].JoinedS != 2.5 || r.Agents[1].Requests.Started != 5 || r.Agents[0].JoinedS != nil ||
		r.Regions[0].Agents != 1 {
		t.Errorf("agents %+v, region %+v", r.Agents, r.Regions[0])
	}
	// In views, which go by name, both processes are one agent.
	window, _ := stage.Window(3)
	for name, v := range map[string]merge.View{"to date": stage.ToDate(), "window": window} {
		if len(v.Agents) != 1 || v.Agents[0].Measured.Counters.GetStarted() != 10 || v.Agents[0].Region != "east" ||
			v.PeakInFlight != 14 {
			t.Errorf("%s: agents %+v, %d in flight", name, v.Agents, v.PeakInFlight)
		}
	}
}

func TestALedgerWithALossIsReplayedWithoutWhatFollowed(t *testing.T) {
	l, err := ledger.Create(filepath.Join(t.TempDir(), "ledger.db"), ledger.Change{Run: fixture.RunRecord(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	rec := fixture.StageRecord(0, 2)
	all := fixture.Recorded(rec, fixture.SteadyRequests(2, 50), fixture.EndWindow)
	all[0].DroppedRecords = 3
	rec.Agents[1].Loss = &spatev1.Loss{FromWindow: 2, Share: 0.5}
	if err := l.Put(ledger.Change{Stages: []*spatev1.StageRecord{rec}}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(all); err != nil {
		t.Fatal(err)
	}
	r, err := Of(l)
	if err != nil {
		t.Fatal(err)
	}
	want := "stage 1: agent b (50 % of the load) lost: all is missing from second 2 on"
	if got := r.Stages[0]; got.Requests.Completed >= 100 ||
		got.Agents[1].Requests.Completed != got.Requests.Completed-50 || got.DroppedRecords != 3 {
		t.Errorf("requests %+v, %d rows dropped", got.Requests, got.DroppedRecords)
	}
	if !slices.Equal(r.Run.Missing, []string{want}) {
		t.Errorf("missing %q", r.Run.Missing)
	}
}
