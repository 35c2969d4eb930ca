package results

import (
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
