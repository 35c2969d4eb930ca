package live

import (
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/coordinator/lifecycle"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Snapshots that were merged and do not count, because their agent was lost meanwhile, are not in a stage's result: the
// stage is merged again from its ledger. Without such snapshots the ledger is not read. If it cannot be read, the
// result is an error.
func TestSnapshotsThatDoNotCountAreNotInTheResult(t *testing.T) {
	const windows, each = 4, 10
	for from, again := range map[uint32]bool{windows - 1: true, windows: false} {
		for _, closed := range []bool{false, true} {
			rec := &spatev1.StageRecord{
				Stage:  &spatev1.Stage{Target: &spatev1.Target{Name: "t", Endpoints: []string{"http://one"}}, Workload: &spatev1.Workload{}, Load: &spatev1.LoadPoint{}},
				Agents: []*spatev1.AssignedAgent{{Agent: &spatev1.AgentInfo{Name: "a"}, Incarnation: 1, Weight: 1}},
			}
			l, err := ledger.Create(filepath.Join(t.TempDir(), ledger.File), ledger.Change{Run: &spatev1.RunRecord{RunId: "r"}})
			if err != nil {
				t.Fatal(err)
			}
			stages := &Stages{}
			stages.Put(rec)
			p := NewPublisher(points.Run{ID: "r"}, stages, sink.Discard, l, &Lag{}, &Latest{}, func(*spatev1.RunEvent) {})
			for w := range uint32(windows) {
				s := &spatev1.Snapshot{
					Key:    &spatev1.SnapshotKey{RunId: "r", Agent: "a", Incarnation: 1, Sequence: uint64(w) + 1},
					Window: w, Series: []*spatev1.Series{{Counters: &spatev1.Counters{Started: each, Completed: each}}},
				}
				if _, err := l.Append([]*spatev1.Snapshot{s}); err != nil {
					t.Fatal(err)
				}
				m, _ := stages.Get(0)
				if err := m.merged.Add(s); err != nil {
					t.Fatal(err)
				}
			}
			if closed {
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
			lost := proto.CloneOf(rec)
			lost.Agents[0].Loss = &spatev1.Loss{FromWindow: from}
			_, _, o, err := p.EndStage(lifecycle.CloseStage{Record: lost})
			if (err != nil) != (closed && again) || err == nil && o.Completed != uint64(from)*each {
				t.Errorf("loss from window %d, closed %v: %d requests, %v", from, closed, o.Completed, err)
			}
			if !closed {
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
