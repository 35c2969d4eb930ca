package coordinator

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/coordinator/clustertest"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// benchSnapshot returns the snapshot of a busy second: 200 completed requests, 10,000 token gaps.
func benchSnapshot(a *clustertest.Agent) *spatev1.Snapshot {
	s := a.Snapshot(uint32(a.Sequence))
	random := rand.New(rand.NewPCG(1, a.Sequence))
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
	a := h.Agent("a")
	h.Submit(1)
	a.Apply()
	a.Armed()
	b.ReportAllocs()
	snapshots := make([]*spatev1.Snapshot, 64)
	for i := range snapshots {
		snapshots[i] = benchSnapshot(a)
	}
	var bytes int
	for i := 0; b.Loop(); i++ {
		s := snapshots[i%len(snapshots)]
		s.Key.Sequence = uint64(i + 1) // a unique key: no duplicates
		bytes += len(s.GetSeries()[0].GetDistributions()[5].GetHistogram())
		a.Acked(s)
	}
	b.ReportMetric(float64(bytes)/float64(b.N), "ITLbytes/op")
}

// BenchmarkAssign measures the coordinator's work to assign a stage to 1,000 agents: adding secrets to an assignment
// with all weights, and encoding it, for each agent. Weights sum up to at most 10,000.
func BenchmarkAssign(b *testing.B) {
	const agents = 1000
	weights := make([]uint32, agents)
	for i := range weights {
		weights[i] = 1 + uint32(i)%19
	}
	words := make([]string, 4000)
	for i := range words {
		words[i] = "word" + strconv.Itoa(i)
	}
	r := &run{secrets: map[string]string{"env:KEY": "secret"}}
	for name, lexicon := range map[string]*spatev1.Lexicon{"plain": nil, "with words": {Words: words}} {
		stage := &spatev1.Stage{
			Target:   &spatev1.Target{Name: "t", Endpoints: []string{"http://10.0.0.1:8000"}, Model: "m", ApiKey: "env:KEY"},
			Workload: &spatev1.Workload{Name: "w", Content: &spatev1.Workload_Random{Random: &spatev1.RandomContent{}}},
			Lexicon:  lexicon,
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var bytes int
			for b.Loop() {
				bytes = 0
				for rank := range uint32(agents) {
					m := &spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Assign{Assign: &spatev1.Assign{
						Ref: &spatev1.AssignmentRef{RunId: "run", Revision: 1}, Stage: stage,
						Stripe: &spatev1.Stripe{Weights: weights, Rank: rank},
					}}}
					encoded, err := proto.Marshal(r.withSecrets(m))
					if err != nil {
						b.Fatal(err)
					}
					bytes += len(encoded)
				}
			}
			b.ReportMetric(float64(bytes)/agents, "bytes/agent")
		})
	}
}
