package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// ByWindow returns all snapshots of the stage, sorted, for any processes and any order of arrival. The names of
// processes may have a common prefix. Newest returns the last of each process.
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
			sequence := rapid.SampledFrom([]uint64{0, 1, 1<<64 - 20}).Draw(rt, "first")
			for range rapid.Uint64Range(1, 5).Draw(rt, "snapshots") {
				s := fixture.SnapshotOf(stage, name, incarnation, sequence)
				sequence += rapid.Uint64Range(1, 3).Draw(rt, "gap")
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
				cmp.Compare(a.GetKey().GetAgent(), b.GetKey().GetAgent()),
				cmp.Compare(a.GetKey().GetIncarnation(), b.GetKey().GetIncarnation()),
				cmp.Compare(a.GetKey().GetSequence(), b.GetKey().GetSequence()))
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
		last := map[string]string{}
		for _, s := range want {
			last[fmt.Sprint(s.GetKey().GetAgent(), s.GetKey().GetIncarnation())] = KeyText(s.GetKey())
		}
		newest := map[string]string{}
		if err := l.Newest(1, func(s *spatev1.Snapshot) error {
			newest[fmt.Sprint(s.GetKey().GetAgent(), s.GetKey().GetIncarnation())] = KeyText(s.GetKey())
			return nil
		}); err != nil || !maps.Equal(newest, last) {
			rt.Fatalf("newest: got %v, want %v, %v", newest, last, err)
		}
	})
}

// Measurements and ByWindow return no request rows.
func TestMeasurementsHaveNoRows(t *testing.T) {
	l, _ := newLedger(t)
	want := []*spatev1.Snapshot{fixture.BusySnapshot(0, 1), fixture.BusySnapshot(0, 2), fixture.BusySnapshot(0, 3)}
	for i, s := range want {
		s.Records = nil
		for range i {
			s.Records = append(s.Records, &spatev1.RequestRecord{Index: 7, StartNs: 1, ItlNs: []int64{20, 30}})
		}
	}
	if _, err := l.Append(want); err != nil {
		t.Fatal(err)
	}
	i := 0
	if err := l.Measurements(0, func(s *spatev1.Snapshot) error {
		want[i].Records = nil
		if !proto.Equal(s, want[i]) {
			t.Errorf("snapshot %d: got %v, want %v", i, s, want[i])
		}
		i++
		return nil
	}); err != nil || i != len(want) {
		t.Errorf("%d snapshots, %v", i, err)
	}
	if err := l.ByWindow(0, func(s *spatev1.Snapshot) error {
		if len(s.GetRecords()) > 0 {
			t.Errorf("by window, there are rows in %v", s)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := decoded([]byte{0x0a, 0x7f}, func(*spatev1.Snapshot) error { return nil }); err == nil {
		t.Error("what cannot be read is left out")
	}
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
