package aggregate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// By window come the same snapshots, sorted: of any processes, whose names may begin alike, whatever the order they came in.
func TestByWindow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l, err := Create(fmt.Sprintf("%s/%d.db", t.TempDir(), rapid.Uint64().Draw(rt, "file")), runRecord(1))
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		var batch, want []*spatev1.Snapshot
		drawn := map[string]bool{}
		for range rapid.IntRange(0, 5).Draw(rt, "processes") {
			name := rapid.SampledFrom([]string{"a", "ab", "a\x01", "b"}).Draw(rt, "name")
			incarnation := rapid.SampledFrom([]uint64{0, 1, 1 << 63, 1<<64 - 1}).Draw(rt, "incarnation")
			stage := rapid.Uint32Range(0, 1).Draw(rt, "stage")
			process := fmt.Sprint(stage, name, incarnation)
			if drawn[process] {
				continue
			}
			drawn[process] = true
			window := uint32(0)
			for sequence := range rapid.Uint64Range(1, 5).Draw(rt, "snapshots") {
				s := snapshotOf(stage, name, incarnation, sequence)
				s.Window = window
				window += rapid.Uint32Range(0, 3).Draw(rt, "step")
				batch = append(batch, s)
				if stage == 1 {
					want = append(want, s)
				}
			}
		}
		if _, err := l.Append(rapid.Permutation(batch).Draw(rt, "order")); err != nil {
			rt.Fatal(err)
		}
		slices.SortFunc(want, func(a, b *spatev1.Snapshot) int {
			return cmp.Or(cmp.Compare(a.GetWindow(), b.GetWindow()), slices.Compare(snapshotKey(1, a.GetKey()), snapshotKey(1, b.GetKey())))
		})
		var got []string
		if err := l.ByWindow(1, func(s *spatev1.Snapshot) error { got = append(got, keyText(s.GetKey())); return nil }); err != nil {
			rt.Fatal(err)
		}
		if !slices.EqualFunc(got, want, func(g string, w *spatev1.Snapshot) bool { return g == keyText(w.GetKey()) }) {
			rt.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestByWindowStopsAtAnError(t *testing.T) {
	l, _ := newLedger(t)
	if _, err := l.Append([]*spatev1.Snapshot{snapshotOf(0, "a", 1, 1), snapshotOf(0, "a", 1, 2)}); err != nil {
		t.Fatal(err)
	}
	enough, calls := errors.New("enough"), 0
	err := l.ByWindow(0, func(*spatev1.Snapshot) error { calls++; return enough })
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// What came to date is known for each window that all agents had delivered before anything of the next one came, shown in time or not.
func TestToDateOf(t *testing.T) {
	rec := stageRecord(0, 2)
	s := NewStage(rec)
	add := func(agent, window int) {
		t.Helper()
		snapshot := &spatev1.Snapshot{
			Key:    &spatev1.SnapshotKey{RunId: "run-1", Agent: agentName(agent), Incarnation: rec.GetAgents()[agent].GetIncarnation(), Sequence: uint64(window) + 1},
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
	add(0, 1) // before window 0 was shown
	if got := started(0); got != 2 {
		t.Errorf("window 0, kept: %d", got)
	}
	add(0, 2) // window 1 is not whole yet
	add(1, 1)
	if got := started(1); got != 0 {
		t.Errorf("window 1 cannot be told, got %d", got)
	}
	add(1, 2)
	if got := started(2); got != 6 {
		t.Errorf("window 2: %d", got)
	}
	s.Forget(2)
	if len(s.dates) != 0 {
		t.Errorf("%d dates are kept", len(s.dates))
	}
}
