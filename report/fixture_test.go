package report

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// planText is the plan of the test's run.
const planText = "# as the person wrote it\nname: sweep\nseed: 7\n"

// runRecord returns the record of a finished run with two stages.
func runRecord(records string) *spatev1.RunRecord {
	return &spatev1.RunRecord{
		RunId:     "sweep-1",
		PlanYaml:  []byte(planText),
		BeginTime: timestamppb.New(time.Unix(1700000000, 0)),
		EndTime:   timestamppb.New(time.Unix(1700000100, 0)),
		Outcome:   spatev1.Outcome_OUTCOME_DONE,
		Version:   "v1",
		Records:   records,
		Stages:    2,
	}
}

// stageRecord returns the record of a finished stage with two agents.
func stageRecord(index uint32) *spatev1.StageRecord {
	rec := &spatev1.StageRecord{
		Stage: &spatev1.Stage{
			Index: index,
			Target: &spatev1.Target{Name: "Dynamo 3P1D", Endpoints: []string{"http://one", "http://two"}, Api: "chat",
				Model: "m"},
			Workload: &spatev1.Workload{Name: "100:4",
				Content: &spatev1.Workload_Random{Random: &spatev1.RandomContent{Isl: 100, Osl: 4}}},
			Load: &spatev1.LoadPoint{Concurrency: 1 << index, Requests: 40},
		},
		StartTime: timestamppb.New(time.Unix(1700000010+20*int64(index), 5e8)),
		Ended:     true,
	}
	for _, name := range []string{"a", "b"} {
		rec.Agents = append(rec.Agents, &spatev1.AssignedAgent{
			Agent:       &spatev1.AgentInfo{Name: name, Region: "eu", Host: "host-" + name, Version: "v1"},
			Incarnation: 1, Weight: 1,
		})
	}
	return rec
}

// snapshotsOf returns the snapshots of both agents of a stage. Each agent has 20 requests of 4 tokens, with rows; one
// request failed.
func snapshotsOf(index uint32) []*spatev1.Snapshot {
	var all []*spatev1.Snapshot
	for a, name := range []string{"a", "b"} {
		random := rand.New(rand.NewPCG(uint64(index), uint64(a)))
		for window := range uint32(2) {
			s := &spatev1.Snapshot{
				Key: &spatev1.SnapshotKey{RunId: "sweep-1", Agent: name, Incarnation: 1,
					Sequence: uint64(2*index + window + 1)},
				StageIndex: index, Window: window, PeakInFlight: 2,
			}
			fill := windowOf(random, window, a)
			s.Series, s.Records = []*spatev1.Series{fill.series}, fill.records
			c := fill.series.GetCounters()
			s.Shares = []*spatev1.WindowShare{{
				Window: window, OutputTokens: c.GetOutputTokens(), Chunks: c.GetChunks(),
				MicroRequests: 1_000_000 * c.GetCompleted(),
			}}
			all = append(all, s)
		}
		all[len(all)-1].Totals = totalsOf(all[len(all)-2:])
	}
	return all
}

// window is what an agent measured in a window, all at one endpoint.
type window struct {
	random  *rand.Rand
	series  *spatev1.Series
	records []*spatev1.RequestRecord
	values  map[spatev1.Metric]*histogram.Histogram
}

// windowOf returns made-up numbers of the 10 requests of a window.
func windowOf(random *rand.Rand, number uint32, agent int) *window {
	w := &window{
		random: random, values: make(map[spatev1.Metric]*histogram.Histogram),
		series: &spatev1.Series{Endpoint: uint32(agent), Counters: &spatev1.Counters{Started: 10, Connections: 1}},
	}
	for i := range 10 {
		start := int64(number)*1e9 + int64(i)*90e6
		row := &spatev1.RequestRecord{
			Index: uint64((int(number)*10+9-i)*2 + agent), Endpoint: uint32(agent), ScheduledNs: start, StartNs: start,
			IslAsked: 100, OslAsked: 4, BodyHash: 1<<63 + uint64(i),
		}
		w.records = append(w.records, row)
		if number == 1 && i == 3 && agent == 1 {
			w.fail(row)
		} else {
			w.complete(row)
		}
	}
	w.record(spatev1.Metric_METRIC_RTT, 2e6+int64(agent)*40e6)
	w.record(spatev1.Metric_METRIC_CONNECT, 3e6+int64(agent)*50e6)
	w.record(spatev1.Metric_METRIC_TCP, 2e6+int64(agent)*50e6)
	w.record(spatev1.Metric_METRIC_DNS, 1e6)
	for metric := range spatev1.Metric(measure.Count) {
		if w.values[metric] != nil {
			w.series.Distributions = append(w.series.Distributions, w.values[metric].Proto(metric))
		}
	}
	return w
}

// record adds a value to a distribution.
func (w *window) record(metric spatev1.Metric, v int64) {
	if w.values[metric] == nil {
		w.values[metric] = histogram.New(histogram.LayoutOf(metric))
	}
	w.values[metric].Record(v)
}

// fail ends a request with status 429.
func (w *window) fail(row *spatev1.RequestRecord) {
	row.ErrorClass, row.HttpStatus = spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS, 429
	row.Error, row.EndNs = "slow | down", row.GetStartNs()+1e6
	w.series.Counters.Failed++
	w.series.Errors = []*spatev1.ErrorCount{{Class: row.GetErrorClass(), HttpStatus: 429, Count: 1,
		Example: "slow | down\nplease"}}
	w.record(spatev1.Metric_METRIC_FAILURE_TIME, 1e6)
}

// complete ends a request with 4 tokens at random times.
func (w *window) complete(row *spatev1.RequestRecord) {
	ttft, gap := 20e6+w.random.Int64N(10e6), 5e6+w.random.Int64N(1e6)
	e2e := ttft + 3*gap
	first, last := row.GetStartNs()+ttft, row.GetStartNs()+e2e
	measure.AddTo(w.series.GetCounters(), &spatev1.Counters{
		Completed: 1, InputTokens: 100, OutputTokens: 4, Frames: 4, TokensArrived: 4, TokenFrames: 4, Chunks: 4,
	})
	row.FirstTokenNs, row.LastTokenNs, row.EndNs = &first, &last, last
	row.SentNs, row.FirstByteNs = new(row.GetStartNs()+120_000), new(first-1_000_000)
	row.FirstChunkNs, row.LastChunkNs, row.FirstTextNs, row.FirstAnswerNs = &first, &last, &first, &first
	row.Chunks, row.TokenFrames, row.ItlNs = 4, 4, []int64{gap, gap, gap}
	row.InputTokens, row.OutputTokens, row.Usage = new(uint64(100)), new(uint64(4)), true
	row.FinishReason = "stop"
	for range row.GetItlNs() {
		w.record(spatev1.Metric_METRIC_ITL, gap)
	}
	for metric, v := range map[spatev1.Metric]int64{
		spatev1.Metric_METRIC_TTFT: ttft, spatev1.Metric_METRIC_VLLM_TTFT: ttft,
		spatev1.Metric_METRIC_E2E: e2e, spatev1.Metric_METRIC_VLLM_E2E: e2e,
		spatev1.Metric_METRIC_TPOT: gap, spatev1.Metric_METRIC_VLLM_TPOT: gap,
		spatev1.Metric_METRIC_ISL: 100, spatev1.Metric_METRIC_OSL: 4,
	} {
		w.record(metric, v)
	}
}

// totalsOf returns the totals of an agent's snapshots.
func totalsOf(snapshots []*spatev1.Snapshot) *spatev1.Totals {
	first, start, end := int64(0), int64(0), int64(0)
	t := &spatev1.Totals{
		Snapshots: uint64(len(snapshots)), Counters: &spatev1.Counters{}, FirstStartNs: &first, LastStartNs: &start,
		LastEndNs:    &end,
		StartErrorNs: -250_000, ClockUncertaintyNs: 80_000,
	}
	counts := make(map[spatev1.Metric]uint64)
	for _, s := range snapshots {
		for _, r := range s.GetRecords() {
			start, end = max(start, r.GetStartNs()), max(end, r.GetEndNs())
		}
		for _, series := range s.GetSeries() {
			measure.AddTo(t.Counters, series.GetCounters())
			for _, d := range series.GetDistributions() {
				h, err := histogram.Check(d)
				if err != nil {
					panic(err)
				}
				counts[d.GetMetric()] += h.Count()
			}
		}
	}
	for m := range spatev1.Metric(measure.Count) {
		if counts[m] > 0 {
			t.Values = append(t.Values, &spatev1.MetricCount{Metric: m, Count: counts[m]})
		}
	}
	return t
}

// runDir creates a run directory with a ledger of both stages. Their snapshots are appended in the order that arrange
// puts them in.
func runDir(t testing.TB, records string, arrange func([]*spatev1.Snapshot)) string {
	t.Helper()
	dir := t.TempDir()
	run := runRecord(records)
	l, err := ledger.Create(filepath.Join(dir, ledger.File), ledger.Change{Run: run})
	if err != nil {
		t.Fatal(err)
	}
	var all []*spatev1.Snapshot
	for index := range uint32(2) {
		rec := stageRecord(index)
		err = errors.Join(err, l.Put(ledger.Change{Stages: []*spatev1.StageRecord{rec}}))
		for _, s := range snapshotsOf(index) {
			if records == "" {
				s.Records = nil
			}
			_, checkErr := merge.Check(s, run, rec)
			err = errors.Join(err, checkErr)
			all = append(all, s)
		}
	}
	arrange(all)
	for _, s := range all {
		_, appendErr := l.Append([]*spatev1.Snapshot{s})
		err = errors.Join(err, appendErr)
	}
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// inOrder leaves snapshots in their order.
func inOrder([]*spatev1.Snapshot) {}

// readAll reads the files of a run directory except the ledger.
func readAll(t testing.TB, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, e := range entries {
		if e.Name() == ledger.File {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

// written makes the files of a run directory and reads them.
func written(t testing.TB, dir string) map[string]string {
	t.Helper()
	if _, err := Write(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	return readAll(t, dir)
}

// distribution returns a distribution with a mean, a median and a 99th percentile.
func distribution(mean, median, p99 float64) *histogram.Summary {
	return &histogram.Summary{Mean: mean, P50: median, P99: p99, Count: 1}
}

// seedStage returns a row of a published table: Dynamo 3P1D at a concurrency.
func seedStage(concurrency uint32, numbers ...float64) results.StageResult {
	if len(numbers) != 8 {
		panic(fmt.Sprint(len(numbers), " numbers"))
	}
	return results.StageResult{
		Target: "Dynamo 3P1D", Workload: "3000:150", Load: results.Load{Words: fmt.Sprintf("concurrency %d",
			concurrency), Concurrency: &concurrency}, Complete: true, Stream: true,
		ISL:               results.SequenceLength{Asked: new(uint32(3000))},
		OSL:               results.SequenceLength{Asked: new(uint32(150))},
		RequestThroughput: &numbers[0], OutputTokenThroughput: &numbers[1],
		Latencies: results.Latencies{
			E2E: distribution(numbers[2], 0, numbers[3]), TTFT: distribution(numbers[4], 0, numbers[5]),
			TPOT: distribution(numbers[6], 0, numbers[7]),
		},
	}
}
