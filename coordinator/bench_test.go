package coordinator

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/ledger"
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

// BenchmarkRestart restarts the coordinator of a stage late in it, and measures how long it takes until the first
// heartbeat is answered, and until the run continues. A figure is of one restart: -benchtime 1x.
func BenchmarkRestart(b *testing.B) {
	for _, size := range []stageSize{{30, 3600, 20, true}, {1000, 600, 10, false}} {
		b.Run(fmt.Sprintf("%d agents, %d s", size.agents, size.seconds), func(b *testing.B) {
			dir := b.TempDir()
			size.write(b, dir)
			for b.Loop() {
				c, err := New(Config{DataDir: dir, Logger: slog.New(slog.DiscardHandler), Version: "test", Run: leisurely})
				if err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				h := serve(b, c, dir)
				h.Agent("0").Beat(1)
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/heartbeat")
				r := h.active()
				<-r.rebuilt
				b.ReportMetric(time.Since(began).Seconds(), "s/rebuilt")
				if err := c.end(true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// stageSize is the size of a stage in progress: agents and seconds, and what each agent measures in a second.
type stageSize struct {
	agents, seconds, requests int
	rows                      bool
}

// write writes the ledger of a run that is in the last second of such a stage.
func (size stageSize) write(b *testing.B, dir string) {
	b.Helper()
	const id = "run"
	if err := os.MkdirAll(filepath.Join(dir, id), 0o755); err != nil {
		b.Fatal(err)
	}
	rec := &spatev1.StageRecord{
		Stage: &spatev1.Stage{
			Target:   &spatev1.Target{Name: "t", Endpoints: []string{"http://one"}, Model: "m"},
			Workload: &spatev1.Workload{}, OnAgentLoss: "reassign",
			Load: &spatev1.LoadPoint{Rate: 1, Duration: durationpb.New(time.Duration(size.seconds+1) * time.Second)},
		},
		StartTime: timestamppb.New(time.Now().Add(-time.Duration(size.seconds) * time.Second)),
	}
	checkpoint := &spatev1.Checkpoint{Phase: "running", Next: 1, Begun: 1, Revision: 1, StartClockNs: 1}
	for i := range size.agents {
		info := &spatev1.AgentInfo{Name: strconv.Itoa(i), Region: "eu", Weight: 1}
		rec.Agents = append(rec.Agents, &spatev1.AssignedAgent{Agent: info, Incarnation: 1, Weight: 1})
		checkpoint.Roster, checkpoint.Incarnations = append(checkpoint.Roster, info), append(checkpoint.Incarnations, 1)
	}
	l, err := ledger.Create(filepath.Join(dir, id, ledger.File), ledger.Change{
		Run: &spatev1.RunRecord{RunId: id}, Stages: []*spatev1.StageRecord{rec}, Checkpoint: checkpoint,
		Submission: &spatev1.Submission{Name: "p", Plan: []*spatev1.Stage{rec.GetStage()}},
	})
	if err != nil {
		b.Fatal(err)
	}
	s := size.snapshot()
	for w := range uint32(size.seconds) {
		var batch []*spatev1.Snapshot
		for i := range size.agents {
			key := &spatev1.SnapshotKey{RunId: id, Agent: strconv.Itoa(i), Incarnation: 1, Sequence: uint64(w) + 1}
			batch = append(batch, &spatev1.Snapshot{
				Key: key, Window: w, Revision: 1, Series: s.GetSeries(), Records: s.GetRecords(),
			})
		}
		if _, err := l.Append(batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}

// snapshot returns what an agent measures in a second: requests of 100 tokens.
func (size stageSize) snapshot() *spatev1.Snapshot {
	const tokens = 100
	n := uint64(size.requests)
	random := rand.New(rand.NewPCG(1, n))
	s := &spatev1.Snapshot{Series: []*spatev1.Series{{Counters: &spatev1.Counters{Started: n, Completed: n,
		OutputTokens: tokens * n, TokensArrived: tokens * n}}}}
	for _, m := range []spatev1.Metric{
		spatev1.Metric_METRIC_TTFT, spatev1.Metric_METRIC_TTFT_SCHEDULED, spatev1.Metric_METRIC_E2E,
		spatev1.Metric_METRIC_E2E_SCHEDULED, spatev1.Metric_METRIC_TPOT, spatev1.Metric_METRIC_SEND_DELAY,
		spatev1.Metric_METRIC_ISL, spatev1.Metric_METRIC_OSL, spatev1.Metric_METRIC_ITL,
	} {
		h := histogram.New(histogram.LayoutOf(m))
		for range size.requests {
			h.Record(1 + int64(20e6*random.ExpFloat64()))
		}
		s.Series[0].Distributions = append(s.Series[0].Distributions, h.Proto(m))
	}
	for i := uint64(0); size.rows && i < n; i++ {
		row := &spatev1.RequestRecord{Index: i, StartNs: 1e9, EndNs: 3e9, IslAsked: 1000, OslAsked: tokens}
		for range tokens {
			row.ItlNs = append(row.ItlNs, 20_000_000+random.Int64N(1_000_000))
		}
		s.Records = append(s.Records, row)
	}
	return s
}
