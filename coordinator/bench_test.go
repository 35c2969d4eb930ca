package coordinator

import (
	"math/rand/v2"
	"testing"

	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// benchSnapshot returns the snapshot of a busy second: 200 completed requests, 10,000 token gaps.
func (a *agent) benchSnapshot() *spatev1.Snapshot {
	s := a.snapshot(uint32(a.sequence))
	random := rand.New(rand.NewPCG(1, a.sequence))
	series := &spatev1.Series{Counters: &spatev1.Counters{Started: 200, Completed: 200, OutputTokens: 10000,
		TokensArrived: 10000}}
	for _, m := range []spatev1.Metric{
		spatev1.Metric_METRIC_TTFT, spatev1.Metric_METRIC_TTFT_SCHEDULED, spatev1.Metric_METRIC_E2E,
		spatev1.Metric_METRIC_E2E_SCHEDULED,
		spatev1.Metric_METRIC_TPOT, spatev1.Metric_METRIC_ITL, spatev1.Metric_METRIC_SEND_DELAY,
		spatev1.Metric_METRIC_ISL,
		spatev1.Metric_METRIC_OSL, spatev1.Metric_METRIC_RECEIVE_LAG,
	} {
		h := histogram.New(histogram.LayoutOf(m))
		n := 200
		if m == spatev1.Metric_METRIC_ITL || m == spatev1.Metric_METRIC_RECEIVE_LAG {
			n = 10000
		}
		for range n {
			h.Record(1 + int64(20e6*random.ExpFloat64()))
		}
		series.Distributions = append(series.Distributions, h.Proto(m))
	}
	s.Series = []*spatev1.Series{series}
	return s
}

// BenchmarkPush pushes one agent's snapshots one after another: check, durable ledger, merge, acknowledgement.
func BenchmarkPush(b *testing.B) {
	h := start(b)
	a := h.agent("a")
	h.submit(1)
	a.apply()
	a.armed()
	b.ReportAllocs()
	snapshots := make([]*spatev1.Snapshot, 64)
	for i := range snapshots {
		snapshots[i] = a.benchSnapshot()
	}
	var bytes int
	for i := 0; b.Loop(); i++ {
		s := snapshots[i%len(snapshots)]
		s.Key.Sequence = uint64(i + 1) // a unique key: no duplicates
		bytes += len(s.GetSeries()[0].GetDistributions()[5].GetHistogram())
		a.acked(s)
	}
	b.ReportMetric(float64(bytes)/float64(b.N), "ITLbytes/op")
}
