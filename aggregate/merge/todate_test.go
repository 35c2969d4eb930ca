package merge

import (
	"testing"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// The view to date is known for each window that all agents delivered before the first snapshot of the next window
// arrived, even if it was not read before that.
func TestToDateOf(t *testing.T) {
	rec := fixture.StageRecord(0, 2)
	s := NewStage(rec)
	add := func(agent, window int) {
		t.Helper()
		snapshot := &spatev1.Snapshot{
			Key: &spatev1.SnapshotKey{RunId: "run-1", Agent: fixture.AgentName(agent),
				Incarnation: rec.GetAgents()[agent].GetIncarnation(), Sequence: uint64(window) + 1},
			Window: uint32(window), Series: []*spatev1.Series{{Counters: &spatev1.Counters{Started: 1}}},
		}
		if err := s.Add(snapshot); err != nil {
			t.Fatal(err)
		}
	}
	started := func(window uint32) uint64 {
		v, ok := s.ToDateOf(window)
		if !ok {
			return 0
		}
		return v.Total.Counters.GetStarted()
	}
	add(0, 0)
	add(1, 0)
	if got := started(0); got != 2 {
		t.Errorf("window 0: %d", got)
	}
	add(0, 1) // before the view of window 0 was read
	if got := started(0); got != 2 {
		t.Errorf("window 0, kept: %d", got)
	}
	add(0, 2) // window 1 is not complete yet
	add(1, 1)
	if got := started(1); got != 0 {
		t.Errorf("window 1 cannot be told, got %d", got)
	}
	add(1, 2)
	if got := started(2); got != 6 {
		t.Errorf("window 2: %d", got)
	}
	s.Forget(2)
	if len(s.toDates) != 0 {
		t.Errorf("%d dates are kept", len(s.toDates))
	}
}
