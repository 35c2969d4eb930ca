package results

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// closing returns the snapshot with the totals of agent a.
func closing(snapshots []*spatev1.Snapshot) *spatev1.Snapshot {
	for _, s := range snapshots {
		if s.GetKey().GetAgent() == "a" && s.GetTotals() != nil {
			return s
		}
	}
	return nil
}

// without removes the snapshot of agent a with a sequence number.
func without(snapshots []*spatev1.Snapshot, sequence uint64) []*spatev1.Snapshot {
	return slices.DeleteFunc(snapshots, func(s *spatev1.Snapshot) bool {
		return s.GetKey().GetAgent() == "a" && s.GetKey().GetSequence() == sequence
	})
}

// damage is a change of a complete stage (agents a and b, snapshots 5 to 9 each), and what the result then lacks.
type damage struct {
	change func(*spatev1.StageRecord, []*spatev1.Snapshot) []*spatev1.Snapshot
	want   string
}

// testDamages checks that the result names the damage and nothing else.
func testDamages(t *testing.T, damages map[string]damage) {
	t.Helper()
	for name, c := range damages {
		t.Run(name, func(t *testing.T) {
			rec := fixture.StageRecord(0, 2)
			stage := merge.NewStage(rec)
			for _, s := range c.change(rec, fixture.Recorded(rec, fixture.SteadyRequests(2, 50), fixture.EndWindow)) {
				if err := stage.Add(s); err != nil {
					t.Fatal(err)
				}
			}
			r := OfStage(stage, rec)
			if r.Complete != (c.want == "") {
				t.Errorf("complete %v", r.Complete)
			}
			if c.want == "" && len(r.Missing) > 0 || c.want != "" &&
				(len(r.Missing) != 1 || !strings.Contains(r.Missing[0], c.want)) {
				t.Errorf("missing %q, want %q", r.Missing, c.want)
			}
		})
	}
}

func TestACompleteStageLacksNothing(t *testing.T) {
	testDamages(t, map[string]damage{
		"nothing": {func(_ *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot { return all }, ""},
	})
}

func TestAStageThatDidNotEndRegularlyIsNotComplete(t *testing.T) {
	testDamages(t, map[string]damage{
		"never started": {func(rec *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			rec.StartTime = nil
			return all
		}, "never started"},
		"not ended": {func(rec *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			rec.Ended = false
			return all
		}, "did not end"},
		"not ended, because of a full disk": {func(rec *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			rec.Ended, rec.Failure = false, "no space left"
			return all
		}, "the stage did not end: no space left"},
		"stopped": {func(rec *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			rec.Stopped = true
			return all
		}, "stopped before its end"},
		"dead target": {func(rec *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			rec.Failure = "no listener"
			return all
		}, "ended early: no listener"},
		"agent lost": {func(rec *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			rec.Agents[0].Failure = "silent for 10s"
			return all
		}, "agent a failed: silent for 10s"},
		"a cause of both": {func(rec *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			rec.Failure, rec.Agents[0].Failure = "agent a: no listener", "no listener"
			closing(all).Totals.Failure = "no listener"
			return all
		}, "the stage ended early: agent a: no listener"},
	})
}

// More agents or cores are no remedy for requests that were never sent because the stage failed.
func TestOnlyStagesThatDidNotFailLackAgents(t *testing.T) {
	for failure, want := range map[string]string{
		"": "never_sent", "agent a: the coordinator was gone for longer than the lease of 30s": "completeness",
	} {
		rec := fixture.StageRecord(0, 2)
		rec.Failure = failure
		all := fixture.Recorded(rec, fixture.SteadyRequests(2, 50), fixture.EndWindow)
		closing(all).Totals.NeverSent = 100
		if got := OfStage(merged(t, rec, all), rec).Trust.Failed()[0].Name; got != want {
			t.Errorf("%q: %v, want %v", failure, got, want)
		}
	}
}

func TestAnAgentWithoutARegularEndIsNamed(t *testing.T) {
	testDamages(t, map[string]damage{
		"agent that never reported": {func(rec *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			return slices.DeleteFunc(all, func(s *spatev1.Snapshot) bool { return s.GetKey().GetAgent() == "b" })
		}, "agent b sent no totals"},
		"no totals": {func(_ *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			closing(all).Totals = nil
			return all
		}, "agent a sent no totals"},
		"agent ended early": {func(_ *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			closing(all).Totals.Failure = "out of sockets"
			return all
		}, "agent a ended early: out of sockets"},
		"agent stopped by somebody": {func(_ *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			closing(all).Totals.Stopped = true
			return all
		}, "agent a was stopped before its end"},
	})
}

func TestLostAndExtraSnapshotsAreCounted(t *testing.T) {
	testDamages(t, map[string]damage{
		"first snapshot": {func(_ *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			return without(all, 5)
		}, "agent a lacks 1 of its 5 snapshots"},
		"middle snapshot": {func(_ *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			return without(all, 7)
		}, "agent a lacks 1 of its 5 snapshots"},
		"too many snapshots": {func(_ *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			return append(all, fixture.SnapshotOf(0, "a", 1, 10))
		}, "agent a has 6 snapshots, but its totals say 5"},
		"a gap made up for": {func(_ *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			return append(without(all, 7), fixture.SnapshotOf(0, "a", 1, 10))
		}, "agent a has 5 snapshots numbered 5 to 10, closed by 9: there is a gap"},
		"totals not last": {func(_ *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			return append(without(all, 5), fixture.SnapshotOf(0, "a", 1, 10))
		}, "agent a has 5 snapshots numbered 6 to 10, closed by 9: there is a gap"},
	})
}

func TestTotalsThatTheSnapshotsDoNotSumToAreNamed(t *testing.T) {
	testDamages(t, map[string]damage{
		"a counter": {func(_ *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			closing(all).Totals.Counters.OutputTokens++
			return all
		}, "agent a has output_tokens 200 in its snapshots, but 201 in its totals"},
		"values": {func(_ *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			closing(all).Totals.Values[0].Count--
			return all
		}, "agent a has 50 values of ttft_ms in its snapshots, but 49 in its totals"},
		"values of no metric in the totals": {func(_ *spatev1.StageRecord, all []*spatev1.Snapshot) []*spatev1.Snapshot {
			closing(all).Totals.Values = closing(all).Totals.Values[1:]
			return all
		}, "agent a has 50 values of ttft_ms in its snapshots, but 0 in its totals"},
	})
}

func TestAStageWithoutAgentsIsNotComplete(t *testing.T) {
	rec := fixture.StageRecord(0, 0)
	if missing := OfStage(merge.NewStage(rec), rec).Missing; len(missing) != 1 || missing[0] != "no agent took part" {
		t.Errorf("missing %q", missing)
	}
}

func TestWhatARunLacks(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*spatev1.RunRecord)
		want   string
	}{
		"nothing": {func(*spatev1.RunRecord) {}, ""},
		"its end": {func(r *spatev1.RunRecord) { r.Outcome = 0 }, "has not ended"},
		"stages":  {func(r *spatev1.RunRecord) { r.Stages = 3 }, "2 of 3 stages did not start"},
		"stages of a search": {func(r *spatev1.RunRecord) {
			r.Stages, r.Outcome, r.EndTime, r.PlanYaml = 3, 0, nil, []byte("loads: [{search: {keep: {}}}]")
		}, "up to 2 of 3 stages did not start"},
		"a load that is found": {func(r *spatev1.RunRecord) {
			r.Series = []*spatev1.SeriesRecord{{Target: "t", Workload: "w", Complete: true}}
		}, ""},
		"a load within the limits": {func(r *spatev1.RunRecord) {
			r.Series = []*spatev1.SeriesRecord{{Target: "t", Workload: "w", Sentence: "slow",
				Load: &spatev1.LoadPoint{Search: &spatev1.Search{}}}}
		}, "the search of t, w has no complete answer: slow"},
		"was stopped": {func(r *spatev1.RunRecord) { r.Outcome = spatev1.Outcome_OUTCOME_STOPPED },
			"the run was stopped"},
		"a dead agent": {func(r *spatev1.RunRecord) {
			r.Outcome, r.Reason = spatev1.Outcome_OUTCOME_FAILED,
				"agent lost"
		}, "failed: agent lost"},
	} {
		t.Run(name, func(t *testing.T) {
			run := fixture.RunRecord(1)
			c.change(run)
			l, err := ledger.Create(filepath.Join(t.TempDir(), "ledger.db"), ledger.Change{Run: run})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			rec := fixture.StageRecord(0, 1)
			if err := l.Put(ledger.Change{Stages: []*spatev1.StageRecord{rec}}); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Append(fixture.Recorded(rec, fixture.SteadyRequests(1, 5), fixture.EndWindow)); err != nil {
				t.Fatal(err)
			}
			r, err := Of(l)
			if err != nil {
				t.Fatal(err)
			}
			if r.Run.Complete != (c.want == "") || !strings.Contains(strings.Join(r.Run.Missing, "\n"), c.want) {
				t.Errorf("complete %v, missing %q", r.Run.Complete, r.Run.Missing)
			}
		})
	}
}
