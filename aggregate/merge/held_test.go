package merge

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A stage that is read after each snapshot, so that nothing is held for long, and one that is read at the end show the
// same: in the sums, in windows, and to date.
func TestHeldSnapshotsCountLikeOthers(t *testing.T) {
	const agents, windows = 20, 8
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	rec := fixture.StageRecord(0, agents)
	requests := fixture.SteadyRequests(agents, 10*windows)
	for i := range requests {
		if r := &requests[i]; random.IntN(8) == 0 {
			r.Tokens, r.Class = nil, spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS
			r.Status = 500 + uint32(random.IntN(3))
		}
	}
	snapshots := fixture.Recorded(rec, requests, fixture.EndWindow)
	for i, s := range snapshots {
		for _, series := range s.GetSeries() {
			for _, e := range series.GetErrors() {
				e.Example = fmt.Sprintf("example %d", i)
			}
		}
	}
	random.Shuffle(len(snapshots), func(i, j int) { snapshots[i], snapshots[j] = snapshots[j], snapshots[i] })

	read, left := NewStage(rec), NewStage(rec)
	for i, s := range snapshots {
		for _, stage := range []*Stage{read, left} {
			if err := stage.Add(s); err != nil {
				t.Fatal(err)
			}
			if i == len(snapshots)/2 {
				stage.Forget(1)
			}
		}
		read.Total()
	}
	if left.held.number == 0 || len(snapshots) < mostHeld {
		t.Fatalf("%d snapshots, of which %d series are held: this tests nothing", len(snapshots), left.held.number)
	}
	for w := range uint32(windows) {
		a, okA := read.Window(w)
		b, okB := left.Window(w)
		if okA != okB || okA != (w > 1) || !reflect.DeepEqual(a, b) {
			t.Errorf("window %d: %v %+v\n%v %+v", w, okA, a, okB, b)
		}
	}
	if a, b := read.ToDate(), left.ToDate(); !reflect.DeepEqual(a, b) || a.Total.Counters.GetCompleted() == 0 ||
		len(a.Total.Errors) != 3 {
		t.Errorf("to date:\n%+v\n%+v", a, b)
	}
	sameTallies(t, read, left, rec)
}

// sameTallies compares tallies that no view has.
func sameTallies(t *testing.T, a, b *Stage, rec *spatev1.StageRecord) {
	t.Helper()
	a.Read(rec, func(x *Sums) {
		b.Read(rec, func(y *Sums) {
			for name, of := range map[string]func(*Sums) any{
				"total":   func(s *Sums) any { return s.Total.ErrorExamples() },
				"raw":     func(s *Sums) any { return s.Total.Summary(spatev1.Metric_METRIC_VLLM_ITL_ADDED) },
				"windows": func(s *Sums) any { return s.Windows[1] },
				"path":    func(s *Sums) any { return s.Regions["east"].Paths[1].Measured() },
			} {
				if !reflect.DeepEqual(of(x), of(y)) {
					t.Errorf("%s: %+v, %+v", name, of(x), of(y))
				}
			}
		})
	})
}
