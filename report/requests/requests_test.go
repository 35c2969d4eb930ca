package requests

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/spate-load/spate/aggregate/ledger"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// However many rows a stage has, few are in memory at once; they are in order unless one ended very late.
func TestRowsComeInOrderAFewAtATime(t *testing.T) {
	for name, c := range map[string]struct {
		agents      string
		ended, want []uint64
	}{
		"each a little late": {"aaaaaaaa", []uint64{2, 1, 4, 3, 6, 5, 8, 7}, []uint64{1, 2, 3, 4, 5, 6, 7, 8}},
		"one very late":      {"aaaaaaaa", []uint64{2, 3, 4, 5, 6, 7, 8, 1}, []uint64{2, 3, 4, 5, 1, 6, 7, 8}},
		"two agents":         {"abababab", []uint64{1, 2, 5, 4, 3, 6, 7, 8}, []uint64{1, 2, 3, 4, 5, 6, 7, 8}},
	} {
		t.Run(name, func(t *testing.T) {
			rec := &spatev1.StageRecord{Stage: &spatev1.Stage{}, Agents: []*spatev1.AssignedAgent{
				{Agent: &spatev1.AgentInfo{Name: "a"}, Incarnation: 1},
				{Agent: &spatev1.AgentInfo{Name: "b"}, Incarnation: 1}}}
			l, err := ledger.Create(filepath.Join(t.TempDir(), "ledger.db"),
				ledger.Change{Run: &spatev1.RunRecord{RunId: "r", Stages: 1}, Stages: []*spatev1.StageRecord{rec}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			var snapshots []*spatev1.Snapshot
			for i, index := range c.ended {
				key := &spatev1.SnapshotKey{RunId: "r", Agent: c.agents[i : i+1], Incarnation: 1, Sequence: uint64(i + 1)}
				snapshots = append(snapshots, &spatev1.Snapshot{Key: key, Window: uint32(i),
					Records: []*spatev1.RequestRecord{{Index: index}}})
			}
			if _, err := l.Append(snapshots); err != nil {
				t.Fatal(err)
			}
			var got []uint64
			err = eachRow(l, rec, 2, func(rows []record) error {
				if len(rows) > 4 {
					t.Errorf("%d rows at once", len(rows))
				}
				for _, r := range rows {
					got = append(got, r.index)
				}
				return nil
			})
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%v, %v, want %v", got, err, c.want)
			}
		})
	}
}
