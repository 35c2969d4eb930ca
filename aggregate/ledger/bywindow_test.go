package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// ByWindow returns all snapshots of the stage, sorted, for any processes and any order of arrival. The names of
// processes may have a common prefix.
func TestByWindow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l, err := Create(fmt.Sprintf("%s/%d.db", t.TempDir(), rapid.Uint64().Draw(rt, "file")),
			Change{Run: fixture.RunRecord(1)})
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
				s := fixture.SnapshotOf(stage, name, incarnation, sequence)
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
			return cmp.Or(cmp.Compare(a.GetWindow(), b.GetWindow()),
				slices.Compare(snapshotKey(1, a.GetKey()), snapshotKey(1, b.GetKey())))
		})
		var got []string
		if err := l.ByWindow(1, func(s *spatev1.Snapshot) error {
			got = append(got,
				KeyText(s.GetKey()))
			return nil
		}); err != nil {
			rt.Fatal(err)
		}
		if !slices.EqualFunc(got, want, func(g string, w *spatev1.Snapshot) bool { return g == KeyText(w.GetKey()) }) {
			rt.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestByWindowStopsAtAnError(t *testing.T) {
	l, _ := newLedger(t)
	if _, err := l.Append([]*spatev1.Snapshot{fixture.SnapshotOf(0, "a", 1, 1),
		fixture.SnapshotOf(0, "a", 1, 2)}); err != nil {
		t.Fatal(err)
	}
	enough, calls := errors.New("enough"), 0
	err := l.ByWindow(0, func(*spatev1.Snapshot) error { calls++; return enough })
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}
