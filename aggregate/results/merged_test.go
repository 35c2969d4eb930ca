package results

import (
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// merged merges snapshots, which must all pass the check.
func merged(t testing.TB, rec *spatev1.StageRecord, snapshots []*spatev1.Snapshot) *merge.Stage {
	t.Helper()
	stage := merge.NewStage(rec)
	for _, s := range snapshots {
		if _, err := merge.Check(s, fixture.RunRecord(1), rec); err != nil {
			t.Fatal(err)
		}
		if err := stage.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	return stage
}

// Every snapshot that passes the check can be merged.
func FuzzCheckedSnapshotsCanBeMerged(f *testing.F) {
	seed, err := proto.Marshal(fixture.GoodSnapshot())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		var s spatev1.Snapshot
		rec := fixture.StageRecord(0, 1)
		if proto.Unmarshal(data, &s) != nil {
			return
		}
		if _, err := merge.Check(&s, fixture.RunRecord(1), rec); err != nil {
			return
		}
		stage := merge.NewStage(rec)
		if err := stage.Add(&s); err != nil {
			t.Fatal(err)
		}
		OfStage(stage, rec)
	})
}

func TestAddRefusesWhatIsNotChecked(t *testing.T) {
	for name, damage := range map[string]func(*spatev1.Snapshot){
		"another stage":   func(s *spatev1.Snapshot) { s.StageIndex = 9 },
		"another agent":   func(s *spatev1.Snapshot) { s.Key.Agent = "z" },
		"another process": func(s *spatev1.Snapshot) { s.Key.Incarnation = 9 },
		"a late window":   func(s *spatev1.Snapshot) { s.Window = measure.MaxWindow + 1 },
		"no endpoint":     func(s *spatev1.Snapshot) { s.Series[1].Endpoint = 2 },
		"garbage":         func(s *spatev1.Snapshot) { s.Series[1].Distributions[0].Histogram = nil },
	} {
		rec := fixture.StageRecord(0, 1)
		stage, empty := merge.NewStage(rec), merge.NewStage(rec)
		s := fixture.GoodSnapshot()
		damage(s)
		if err := stage.Add(s); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if resultJSON(t, stage, rec) != resultJSON(t, empty, rec) {
			t.Errorf("%s: left something behind", name)
		}
	}
}

func TestForgottenWindowsStayInTheSums(t *testing.T) {
	rec := fixture.StageRecord(0, 2)
	snapshots := fixture.Recorded(rec, fixture.SteadyRequests(2, 50), fixture.EndWindow)
	want := resultJSON(t, merged(t, rec, snapshots), rec)
	stage := merge.NewStage(rec)
	for i, s := range snapshots {
		if err := stage.Add(s); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			stage.Forget(1)
		}
	}
	if got := resultJSON(t, stage, rec); got != want {
		t.Errorf("the result is\n%s\nwant\n%s", got, want)
	}
	for w, want := range []bool{false, false, true, true, true, false} {
		if _, ok := stage.Window(uint32(w)); ok != want {
			t.Errorf("window %d there: %v", w, ok)
		}
	}
}

func TestConcurrentAddsLoseNothing(t *testing.T) {
	rec := fixture.StageRecord(0, 4)
	snapshots := fixture.Recorded(rec, fixture.SteadyRequests(4, 50), fixture.EndWindow)
	stage := merge.NewStage(rec)
	var all sync.WaitGroup
	for _, s := range snapshots {
		all.Go(func() {
			if err := stage.Add(s); err != nil {
				t.Error(err)
			}
			stage.ToDate()
			stage.Forget(0)
		})
	}
	all.Wait()
	if missing := OfStage(stage, rec).Missing; len(missing) > 0 {
		t.Errorf("missing %q", missing)
	}
}

// Repeats are taken together as if they were one stage: what a reader sees is made from the sums and the merged
// histograms of those that can be believed. The spread is that of the stages' own values. Probes are no repeats.
func TestRepeatsAreTakenTogether(t *testing.T) {
	var records []*spatev1.StageRecord
	for i := range uint32(6) {
		rec := fixture.StageRecord(i, 1)
		rec.Stage.Load.Repeat = i
		if i == 5 {
			rec.Stage.Load, rec.Stage.Probe = &spatev1.LoadPoint{Concurrency: 8, Requests: 100}, &spatev1.Probe{}
		}
		records = append(records, rec)
	}
	records[4].Stage.Load = &spatev1.LoadPoint{Concurrency: 9, Requests: 100}
	g := newGatherer(records)
	var all []fixture.Request
	var stages []StageResult
	for i, rec := range records {
		requests := fixture.SteadyRequests(1, 100)
		for k := range requests {
			requests[k].Tokens[3] += int64(k) * 1e5 * int64(i+1)
		}
		snapshots := fixture.Recorded(rec, requests, fixture.EndWindow)
		if i == 3 {
			snapshots = snapshots[:1] // incomplete
		}
		stage := merged(t, rec, snapshots)
		r := OfStage(stage, rec)
		g.add(stage, rec, r)
		if i < 3 {
			all, stages = append(all, requests...), append(stages, r)
		}
	}
	got := g.results()
	if len(got) != 1 || !slices.Equal(got[0].Stages, []uint32{0, 1, 2}) || !slices.Equal(got[0].LeftOut, []uint32{3}) ||
		got[0].Load != "concurrency 8" || got[0].Completed != 300 {
		t.Fatalf("%+v", got)
	}
	one := fixture.StageRecord(0, 1)
	whole := OfStage(merged(t, one, fixture.Recorded(one, all, fixture.EndWindow)), one)
	if !reflect.DeepEqual(got[0].E2E, whole.E2E) || reflect.DeepEqual(got[0].E2E, stages[0].E2E) {
		t.Errorf("E2E %+v, of one stage with all requests %+v", got[0].E2E, whole.E2E)
	}
	seconds := *stages[0].DurationS + *stages[1].DurationS + *stages[2].DurationS
	if math.Abs(*got[0].RequestThroughput-300/seconds) > 1e-9 || *got[0].DurationS != seconds {
		t.Errorf("%v req/s in %v s, want those of %v s", *got[0].RequestThroughput, *got[0].DurationS, seconds)
	}
	i := slices.IndexFunc(got[0].Spreads, func(s RepeatSpread) bool { return s.Metric == "e2e_ms.mean" })
	s, mean := got[0].Spreads[i], (stages[0].E2E.Mean+stages[1].E2E.Mean+stages[2].E2E.Mean)/3
	if math.Abs(s.Mean-mean) > 1e-9 || math.Abs(s.High-mean-4.3027*s.Std/math.Sqrt(3)) > 1e-3*s.Std || s.Std <= 0 {
		t.Errorf("spread %+v, want around %v", s, mean)
	}
}
