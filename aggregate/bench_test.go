package aggregate

import (
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// busySnapshot is what an agent sends each second with about 100 requests in flight, 2 requests and 2,000 frames a second: 10
// distributions, of which the token gaps and receive lags have thousands of values.
func busySnapshot(agent int, sequence uint64) *spatev1.Snapshot {
	random := rand.New(rand.NewPCG(uint64(agent), sequence))
	spread := func(m spatev1.Metric, n int, middle, wide float64) *spatev1.Distribution {
		h := histogram.New(histogram.LayoutOf(m))
		for range n {
			h.Record(int64(max(middle+random.NormFloat64()*wide, 0)))
		}
		return h.Proto(m)
	}
	s := snapshotOf(0, agentName(agent), 1, sequence)
	s.Window = uint32(sequence)
	s.Series = []*spatev1.Series{{
		Counters: &spatev1.Counters{
			Started: 20, Completed: 20, InputTokens: 60000, OutputTokens: 3000, TokenFrames: 2000, TokensArrived: 2000,
		},
		Distributions: []*spatev1.Distribution{
			spread(spatev1.Metric_METRIC_TTFT, 20, 700e6, 200e6),
			spread(spatev1.Metric_METRIC_TTFT_SCHEDULED, 20, 700e6, 200e6),
			spread(spatev1.Metric_METRIC_E2E, 20, 4e9, 5e8),
			spread(spatev1.Metric_METRIC_E2E_SCHEDULED, 20, 4e9, 5e8),
			spread(spatev1.Metric_METRIC_TPOT, 20, 20e6, 2e6),
			spread(spatev1.Metric_METRIC_ITL, 2000, 20e6, 5e6),
			spread(spatev1.Metric_METRIC_SEND_DELAY, 20, 60e3, 20e3),
			spread(spatev1.Metric_METRIC_ISL, 20, 3000, 0),
			spread(spatev1.Metric_METRIC_OSL, 20, 150, 5),
			spread(spatev1.Metric_METRIC_RECEIVE_LAG, 2000, 30e3, 20e3),
		},
	}}
	return s
}

// BenchmarkSnapshot is the coordinator's work for one snapshot, part by part. Append is one at a time: each pays for its own sync,
// which a group of waiting agents shares.
func BenchmarkSnapshot(b *testing.B) {
	rec, run := stageRecord(0, 1), runRecord(1)
	s := busySnapshot(0, 1)
	encoded, err := proto.Marshal(s)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		b.ReportMetric(float64(len(encoded)), "bytes/snapshot")
		for b.Loop() {
			if err := CheckSnapshot(s, run, rec); err != nil {
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

// benchmarkAppend appends snapshots from some goroutines.
func benchmarkAppend(b *testing.B, s *spatev1.Snapshot, agents int) {
	l, err := Create(filepath.Join(b.TempDir(), "ledger.db"), runRecord(1))
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

// BenchmarkToDate is one live view of a stage of 26 agents.
func BenchmarkToDate(b *testing.B) {
	rec := stageRecord(0, 26)
	stage := NewStage(rec)
	for a := range 26 {
		for n := range uint64(5) {
			if err := stage.Add(busySnapshot(a, n+1)); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		stage.ToDate()
	}
}

// BenchmarkStageMemory is what a stage of 26 agents and 100 windows holds once its windows are forgotten.
func BenchmarkStageMemory(b *testing.B) {
	rec := stageRecord(0, 26)
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		stage := NewStage(rec)
		for n := range uint64(100) {
			for a := range 26 {
				s := busySnapshot(a, n%5+1)
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
