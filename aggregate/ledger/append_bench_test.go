package ledger

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// BenchmarkAppendCrowd writes what 1,000 agents send: one snapshot of each agent per second, in random order, as four
// groups of waiting calls.
func BenchmarkAppendCrowd(b *testing.B) {
	const agents, groups = 1000, 4
	path := filepath.Join(b.TempDir(), "ledger.db")
	l, err := Create(path, Change{Run: fixture.RunRecord(1)})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	var snapshots [agents]*spatev1.Snapshot
	for a := range snapshots {
		snapshots[a] = proto.CloneOf(fixture.BusySnapshot(a%16, 1))
		snapshots[a].Key.Agent = fixture.AgentName(a)
	}
	b.ReportAllocs()
	appended := 0
	for b.Loop() {
		for i, a := range rand.Perm(agents) {
			s := snapshots[a]
			s.Key.Sequence++
			e, err := entryOf(s)
			if err != nil {
				b.Fatal(err)
			}
			l.waiting = append(l.waiting, &pendingBatch{entries: []entry{e}, fresh: make([]bool, 1),
				done: make(chan struct{})})
			if appended++; (i+1)%(agents/groups) == 0 {
				l.commit(l.take())
			}
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(appended), "ns/snapshot")
	b.ReportMetric(float64(info.Size())/float64(appended), "bytes/snapshot")
}
