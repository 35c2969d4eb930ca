package outbox

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const endpoints = 3

// observed holds the measurements of a window in a naive form.
type observed struct {
	counters map[[2]int]uint64                  // by endpoint and field number
	values   map[int]map[spatev1.Metric][]int64 // by endpoint
	errors   map[int]map[uint32]uint64          // by endpoint and status
	rows     []uint64
}

// drawWindow draws a window, and its snapshot as a recorder would make it.
func drawWindow(t *rapid.T, window uint32) (observed, *spatev1.Snapshot) {
	o := observed{counters: map[[2]int]uint64{}, values: map[int]map[spatev1.Metric][]int64{},
		errors: map[int]map[uint32]uint64{}}
	s := &spatev1.Snapshot{
		Window: window, PeakInFlight: rapid.Uint32Range(0, 9).Draw(t, "peak"),
		StartedItems: []uint64{uint64(window), 3},
		Key:          &spatev1.SnapshotKey{RunId: "run", Agent: "a", Incarnation: 1, Sequence: 1},
	}
	for e := range endpoints {
		if !rapid.Bool().Draw(t, "endpoint has series") {
			continue
		}
		s.Series = append(s.Series, drawSeries(t, e, &o))
		s.Turns = append(s.Turns, proto.CloneOf(s.Series[len(s.Series)-1])) // turns merge as endpoints do
	}
	for range rapid.IntRange(0, 3).Draw(t, "rows") {
		index := rapid.Uint64().Draw(t, "index")
		o.rows = append(o.rows, index)
		s.Records = append(s.Records, &spatev1.RequestRecord{Index: index})
	}
	return o, s
}

func drawSeries(t *rapid.T, e int, o *observed) *spatev1.Series {
	s := &spatev1.Series{Endpoint: uint32(e), Counters: &spatev1.Counters{}}
	fields := s.GetCounters().ProtoReflect().Descriptor().Fields()
	s.Counters.Started = rapid.Uint64Range(0, 100).Draw(t, "started")
	s.Counters.TokensArrived = rapid.Uint64Range(0, 100).Draw(t, "tokens")
	o.errors[e] = map[uint32]uint64{}
	for _, status := range []uint32{429, 500} {
		if n := rapid.Uint64Range(0, 3).Draw(t, "errors"); n > 0 {
			s.Errors = append(s.Errors, &spatev1.ErrorCount{Class: spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS,
				HttpStatus: status, Count: n, Example: "x"})
			s.Counters.Failed += n
			o.errors[e][status] = n
		}
	}
	for i := range fields.Len() {
		f := fields.Get(i)
		o.counters[[2]int{e, int(f.Number())}] = s.GetCounters().ProtoReflect().Get(f).Uint()
	}
	o.values[e] = map[spatev1.Metric][]int64{}
	for _, m := range []spatev1.Metric{spatev1.Metric_METRIC_TTFT, spatev1.Metric_METRIC_CONNECT,
		spatev1.Metric_METRIC_OSL} {
		values := rapid.SliceOfN(rapid.Int64Range(1000, 1<<31), 0, 5).Draw(t, "values")
		if len(values) == 0 {
			continue
		}
		o.values[e][m] = values
		s.Distributions = append(s.Distributions, distributionOf(m, values))
	}
	return s
}

func distributionOf(m spatev1.Metric, values []int64) *spatev1.Distribution {
	h := histogram.New(histogram.LayoutOf(m))
	for _, v := range values {
		h.Record(v)
	}
	return h.Proto(m)
}

// In whatever order neighbours are merged, the result holds the sum of a stage's windows, and the coordinator accepts
// it.
func TestSumIsThatOfAllTogether(t *testing.T) {
	run := &spatev1.RunRecord{RunId: "run", Records: "jsonl"}
	stage := &spatev1.StageRecord{
		Stage:     &spatev1.Stage{Target: &spatev1.Target{Endpoints: make([]string, endpoints)}},
		StartTime: timestamppb.New(time.Unix(1, 0)),
		Agents:    []*spatev1.AssignedAgent{{Agent: &spatev1.AgentInfo{Name: "a"}, Incarnation: 1, Weight: 1}},
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "windows")
		var all []observed
		var snapshots []*spatev1.Snapshot
		peak := uint32(0)
		for w := range n {
			o, s := drawWindow(t, uint32(w))
			all, snapshots = append(all, o), append(snapshots, s)
			peak = max(peak, s.GetPeakInFlight())
		}
		snapshots[n-1].Totals = &spatev1.Totals{Snapshots: 1}
		snapshots[n-1].ServerAccounts = []*spatev1.ServerAccount{{Counters: []*spatev1.ServerCounter{{Name: "c",
			Increase: 3}}}}
		before := make([]*spatev1.Snapshot, n)
		for i, s := range snapshots {
			before[i] = proto.CloneOf(s)
		}
		originals := slices.Clone(snapshots)
		for len(snapshots) > 1 {
			i := rapid.IntRange(0, len(snapshots)-2).Draw(t, "merge at")
			sum, fits := Merge(snapshots[i], snapshots[i+1])
			if !fits {
				t.Fatal("does not fit")
			}
			snapshots = slices.Replace(snapshots, i, i+2, sum)
		}
		for i := range originals {
			if !proto.Equal(before[i], originals[i]) {
				t.Fatalf("window %d was changed", i)
			}
		}
		sum := snapshots[0]
		check(t, sum, all)
		if sum.FirstWindow == nil || sum.GetFirstWindow() != 0 || sum.GetWindow() != uint32(n-1) ||
			sum.GetTotals() == nil || len(sum.GetServerAccounts()) != 1 ||
			sum.GetPeakInFlight() != peak || !slices.Equal(sum.GetStartedItems(), []uint64{uint64(n - 1), 3}) {
			t.Fatalf("sum %v", sum)
		}
		sum.Key = before[0].GetKey()
		if _, err := merge.Check(sum, run, stage); err != nil {
			t.Fatal(err)
		}
	})
}

// check compares a sum with the observed windows.
func check(t *rapid.T, sum *spatev1.Snapshot, all []observed) {
	series := map[int]*spatev1.Series{}
	for _, s := range sum.GetSeries() {
		series[int(s.GetEndpoint())] = s
	}
	same := func(a, b *spatev1.Series) bool { return proto.Equal(a, b) }
	if !slices.EqualFunc(sum.GetSeries(), sum.GetTurns(), same) {
		t.Fatalf("turns %v, not %v", sum.GetTurns(), sum.GetSeries())
	}
	var rows []uint64
	for e := range endpoints {
		counters := map[int]uint64{}
		values := map[spatev1.Metric][]int64{}
		errors := map[uint32]uint64{}
		for _, o := range all {
			for key, n := range o.counters {
				if key[0] == e {
					counters[key[1]] += n
				}
			}
			for m, v := range o.values[e] {
				values[m] = append(values[m], v...)
			}
			for status, n := range o.errors[e] {
				errors[status] += n
			}
		}
		checkSeries(t, series[e], counters, values, errors)
	}
	for _, o := range all {
		rows = append(rows, o.rows...)
	}
	if !slices.EqualFunc(sum.GetRecords(), rows,
		func(r *spatev1.RequestRecord, index uint64) bool { return r.GetIndex() == index }) {
		t.Fatalf("rows %v, not %v", sum.GetRecords(), rows)
	}
}

func checkSeries(
	t *rapid.T, s *spatev1.Series, counters map[int]uint64, values map[spatev1.Metric][]int64, errors map[uint32]uint64,
) {
	fields := (&spatev1.Counters{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if got := s.GetCounters().ProtoReflect().Get(f).Uint(); got != counters[int(f.Number())] {
			t.Fatalf("%s is %d, not %d", f.Name(), got, counters[int(f.Number())])
		}
	}
	if len(s.GetDistributions()) != len(values) {
		t.Fatalf("%d metrics, not %d", len(s.GetDistributions()), len(values))
	}
	if !slices.IsSortedFunc(s.GetDistributions(),
		func(a, b *spatev1.Distribution) int { return cmp.Compare(a.GetMetric(), b.GetMetric()) }) {
		t.Fatal("metrics are out of order")
	}
	for _, d := range s.GetDistributions() {
		if want := distributionOf(d.GetMetric(), values[d.GetMetric()]); !proto.Equal(d, want) {
			t.Fatalf("%v: %v, not %v", d.GetMetric(), d, want)
		}
	}
	for _, e := range s.GetErrors() {
		if e.GetCount() != errors[e.GetHttpStatus()] || e.GetExample() != "x" {
			t.Fatalf("errors %v, not %v", s.GetErrors(), errors)
		}
		delete(errors, e.GetHttpStatus())
	}
	if len(errors) > 0 {
		t.Fatalf("errors %v are missing", errors)
	}
}

func TestTooLargeSumsAreNotMerged(t *testing.T) {
	many := func(n uint64) *spatev1.Snapshot {
		return &spatev1.Snapshot{Series: []*spatev1.Series{{Counters: &spatev1.Counters{TokenFrames: n}}}}
	}
	if _, fits := Merge(many(measure.MaxWindowCount), many(1)); fits {
		t.Error("a counter beyond what the coordinator takes")
	}
	full := func(n uint64) *spatev1.Snapshot {
		h := histogram.New(histogram.Times)
		h.RecordN(5000, n)
		return &spatev1.Snapshot{Series: []*spatev1.Series{{
			Distributions: []*spatev1.Distribution{h.Proto(spatev1.Metric_METRIC_ITL)},
		}}}
	}
	if _, fits := Merge(full(measure.MaxValues), full(1)); fits {
		t.Error("more values than the coordinator takes")
	}
	if sum, fits := Merge(full(measure.MaxValues-1), full(1)); !fits || len(sum.GetSeries()) != 1 {
		t.Error("values up to the limit do not fit")
	}
}

// The room below the coordinator's limit is enough for the key, which is added later.
func TestLimitIsBelowTheCoordinators(t *testing.T) {
	key := proto.Size(&spatev1.Snapshot{Key: &spatev1.SnapshotKey{
		RunId: string(make([]byte, 256)), Agent: string(make([]byte, 256)), Incarnation: 1 << 63, Sequence: 1 << 63,
	}})
	if maxBytes+key > merge.MaxSnapshotBytes {
		t.Errorf("%d and a key of %d bytes are more than %d", maxBytes, key, merge.MaxSnapshotBytes)
	}
}

// The pieces of a snapshot that is too large are small enough, and together have the same content.
func TestSplit(t *testing.T) {
	whole := &spatev1.Snapshot{
		Window: 7, FirstWindow: proto.Uint32(3), PeakInFlight: 5, StartedItems: []uint64{4}, DroppedRecords: 2,
		Totals: &spatev1.Totals{Failure: "f"},
		ServerAccounts: []*spatev1.ServerAccount{{Counters: []*spatev1.ServerCounter{{Labels: string(make([]byte,
			1<<20))}}}},
	}
	for e := range uint32(40) {
		whole.Series = append(whole.Series,
			&spatev1.Series{Endpoint: e, Errors: []*spatev1.ErrorCount{{Example: string(make([]byte, 1<<20))}}})
	}
	whole.Turns = slices.Clone(whole.Series[:20])
	for i := range uint64(10) {
		whole.Records = append(whole.Records, &spatev1.RequestRecord{Index: i, Error: string(make([]byte, 3<<20))})
	}
	whole.Records = append(whole.Records, &spatev1.RequestRecord{Index: 10, Error: string(make([]byte, maxBytes))})
	pieces := split(whole)
	var together spatev1.Snapshot
	for i, p := range pieces {
		if size := proto.Size(p); size > maxBytes {
			t.Errorf("piece %d has %d bytes", i, size)
		}
		if p.GetWindow() != 7 || p.GetFirstWindow() != 3 || len(p.GetStartedItems()) != 1 ||
			(p.GetTotals() != nil) != (i == len(pieces)-1) ||
			(len(p.GetServerAccounts()) == 1) != (p.GetTotals() != nil) {
			t.Errorf("piece %d: window %d from %d, begun %v, totals %v", i, p.GetWindow(), p.GetFirstWindow(),
				p.GetStartedItems(), p.GetTotals())
		}
		together.Series = append(together.Series, p.GetSeries()...)
		together.Turns = append(together.Turns, p.GetTurns()...)
		together.Records = append(together.Records, p.GetRecords()...)
		together.DroppedRecords += p.GetDroppedRecords()
		together.PeakInFlight += p.GetPeakInFlight()
	}
	if len(together.GetSeries()) != 40 || len(together.GetTurns()) != 20 || len(together.GetRecords()) != 10 ||
		together.GetDroppedRecords() != 3 ||
		together.GetPeakInFlight() != 5 {
		t.Errorf("%d series, %d rows, %d dropped, peak %d", len(together.GetSeries()), len(together.GetRecords()),
			together.GetDroppedRecords(), together.GetPeakInFlight())
	}
	if small := (&spatev1.Snapshot{Window: 1}); len(split(small)) != 1 || split(small)[0] != small {
		t.Error("a small snapshot is not left as it is")
	}
}

// BenchmarkSnapshots merges windows of one endpoint with all metrics.
func BenchmarkSnapshots(b *testing.B) {
	window := func(w uint32) *spatev1.Snapshot {
		s := &spatev1.Series{Counters: &spatev1.Counters{Started: 1}}
		for _, metric := range measure.Metrics() {
			m := metric.ID
			h := histogram.New(histogram.LayoutOf(m))
			for v := range int64(1000) {
				h.Record(1e6 + v*v*100)
			}
			s.Distributions = append(s.Distributions, h.Proto(m))
		}
		return &spatev1.Snapshot{Window: w, Series: []*spatev1.Series{s}}
	}
	older, newer := window(1), window(2)
	b.ReportAllocs()
	for b.Loop() {
		if _, fits := Merge(older, newer); !fits {
			b.Fatal("does not fit")
		}
	}
}
