package merge

import (
	"path/filepath"
	"runtime"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/aggregate/ledger"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// BenchmarkSnapshot measures the coordinator's work for one snapshot, part by part. Concurrent Appends share a sync.
func BenchmarkSnapshot(b *testing.B) {
	rec, run := fixture.StageRecord(0, 1), fixture.RunRecord(1)
	s := fixture.BusySnapshot(0, 1)
	encoded, err := proto.Marshal(s)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		b.ReportMetric(float64(len(encoded)), "bytes/snapshot")
		for b.Loop() {
			if _, err := Check(s, run, rec); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("add", func(b *testing.B) {
		b.ReportAllocs()
		stage := NewStage(rec)
		for b.Loop() {
			if err := stage.Add(s); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("append", func(b *testing.B) { benchmarkAppend(b, s, 1) })
	b.Run("append by 64 agents", func(b *testing.B) { benchmarkAppend(b, s, 64) })
}

// benchmarkAppend appends snapshots from about as many goroutines as there are agents, but from at least GOMAXPROCS.
func benchmarkAppend(b *testing.B, s *spatev1.Snapshot, agents int) {
	l, err := ledger.Create(filepath.Join(b.TempDir(), "ledger.db"), ledger.Change{Run: fixture.RunRecord(1)})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	b.ReportAllocs()
	b.SetParallelism(max(agents/runtime.GOMAXPROCS(0), 1))
	random := make(chan uint64, agents*2)
	for i := range cap(random) {
		random <- uint64(i)
	}
	b.RunParallel(func(pb *testing.PB) {
		own := proto.CloneOf(s)
		own.Key.Incarnation = <-random
		for own.Key.Sequence = 1; pb.Next(); own.Key.Sequence++ {
			if _, err := l.Append([]*spatev1.Snapshot{own}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkToDate measures one live view of a stage with 26 agents.
func BenchmarkToDate(b *testing.B) {
	rec := fixture.StageRecord(0, 26)
	stage := NewStage(rec)
	for a := range 26 {
		for n := range uint64(5) {
			if err := stage.Add(fixture.BusySnapshot(a, n+1)); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		stage.ToDate()
	}
}

// BenchmarkStageMemory measures the memory of a stage with 26 agents and 100 windows after its windows are forgotten.
func BenchmarkStageMemory(b *testing.B) {
	rec := fixture.StageRecord(0, 26)
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		stage := NewStage(rec)
		for n := range uint64(100) {
			for a := range 26 {
				s := fixture.BusySnapshot(a, n%5+1)
				s.Window = uint32(n)
				if err := stage.Add(s); err != nil {
					b.Fatal(err)
				}
			}
			stage.Forget(uint32(n))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/26/1024, "KiB/agent")
		runtime.KeepAlive(stage)
	}
}

// A stage keeps no histogram of a window that was forgotten: hours of it fit into memory.
func TestAForgottenWindowTakesLittleMemory(t *testing.T) {
	const windows, most = 4000, 256 // bytes
	stage := NewStage(fixture.StageRecord(0, 1))
	heap := func() (m runtime.MemStats) {
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m
	}
	play := func(from, to uint32) {
		for w := from; w < to; w++ {
			s := fixture.SnapshotOf(0, fixture.AgentName(0), 1, uint64(w)+1)
			s.Window = w
			if err := stage.Add(s); err != nil {
				t.Fatal(err)
			}
			stage.Forget(w)
		}
	}
	play(0, windows)
	before := heap()
	play(windows, 2*windows)
	after := heap()
	if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / windows; each > most {
		t.Errorf("%d bytes a window, want %d at most", each, most)
	} else {
		t.Logf("%d bytes a window", each)
	}
	runtime.KeepAlive(stage)
}
