package merge

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/bundle"
	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// bundleOf returns a stage with two agents of one region, and the bundle of their first windows.
func bundleOf() (rec *spatev1.StageRecord, sum *spatev1.Snapshot, members []*spatev1.Snapshot) {
	rec = fixture.StageRecord(0, 2)
	for _, a := range rec.GetAgents() {
		a.Agent.Region = "east"
	}
	var first []*spatev1.Snapshot
	for _, s := range fixture.Recorded(rec, fixture.SteadyRequests(2, 50), fixture.EndWindow) {
		if s.GetWindow() == 0 {
			first = append(first, s)
		}
	}
	sum, members, _ = bundle.Of(first, &spatev1.Merged{Region: "east"})
	sum.Key.Agent, sum.Key.Incarnation, sum.Key.Sequence = "relay east", 7, 1
	return rec, sum, members
}

// What a bundle must not have is found before anything of it is merged.
func TestBundlesAreChecked(t *testing.T) {
	type change func(rec *spatev1.StageRecord, sum *spatev1.Snapshot, second *spatev1.Snapshot)
	for name, tc := range map[string]struct {
		change change
		alone  bool   // the second member does not belong to it
		says   string // what is wrong with the bundle
	}{
		"a good one":        {change: func(*spatev1.StageRecord, *spatev1.Snapshot, *spatev1.Snapshot) {}},
		"another region":    {func(rec *spatev1.StageRecord, _, _ *spatev1.Snapshot) { rec.Agents[1].Agent.Region = "west" }, true, ""},
		"an observer":       {func(rec *spatev1.StageRecord, _, _ *spatev1.Snapshot) { rec.Agents[1].Observer = true }, true, ""},
		"a process twice":   {func(_ *spatev1.StageRecord, sum, s *spatev1.Snapshot) { s.Key.Agent, s.Key.Sequence = "a", 2 }, true, ""},
		"a stranger":        {func(_ *spatev1.StageRecord, _, s *spatev1.Snapshot) { s.Key.Agent = "z" }, true, ""},
		"another window":    {func(_ *spatev1.StageRecord, _, s *spatev1.Snapshot) { s.Window = 3 }, true, ""},
		"several windows":   {func(_ *spatev1.StageRecord, _, s *spatev1.Snapshot) { s.FirstWindow = new(uint32) }, true, ""},
		"turns":             {func(_ *spatev1.StageRecord, _, s *spatev1.Snapshot) { s.Turns = s.Series }, true, ""},
		"shares":            {func(_ *spatev1.StageRecord, sum, s *spatev1.Snapshot) { s.Shares = sum.Shares }, true, ""},
		"unknown metrics":   {func(_ *spatev1.StageRecord, _, s *spatev1.Snapshot) { s.TakenOut = make([]uint64, 99) }, true, ""},
		"nothing taken out": {func(_ *spatev1.StageRecord, _, s *spatev1.Snapshot) { s.TakenOut = nil }, true, ""},
		"its own values":    {func(_ *spatev1.StageRecord, sum, s *spatev1.Snapshot) { s.Series = sum.Series }, true, ""},
		"a value too many":  {func(_ *spatev1.StageRecord, _, s *spatev1.Snapshot) { s.TakenOut[1]++ }, false, "values of"},
		"a share too many":  {func(_ *spatev1.StageRecord, sum, _ *spatev1.Snapshot) { sum.Shares[0].Chunks++ }, false, "by window"},
		"no sum":            {func(_ *spatev1.StageRecord, sum, _ *spatev1.Snapshot) { sum.Merged, sum.Series = nil, nil }, true, ""},
		"a row":             {func(_ *spatev1.StageRecord, sum, _ *spatev1.Snapshot) { sum.Records = []*spatev1.RequestRecord{{}} }, false, "are not those"},
		"counters":          {func(_ *spatev1.StageRecord, sum, _ *spatev1.Snapshot) { sum.Series[0].Counters = &spatev1.Counters{} }, false, "counters"},
		"another run":       {func(_ *spatev1.StageRecord, sum, _ *spatev1.Snapshot) { sum.Key.RunId = "x" }, false, "another stage"},
		"garbage":           {func(_ *spatev1.StageRecord, sum, _ *spatev1.Snapshot) { sum.Series[0].Distributions[0].Histogram = nil }, false, "ttft"},
		"no endpoint":       {func(_ *spatev1.StageRecord, sum, _ *spatev1.Snapshot) { sum.Series[1].Endpoint = 9 }, false, "endpoint 9"},
		"faulty turns":      {func(_ *spatev1.StageRecord, sum, _ *spatev1.Snapshot) { sum.Turns = []*spatev1.Series{{Endpoint: 99}} }, false, "turns"},
	} {
		rec, sum, members := bundleOf()
		tc.change(rec, sum, members[1])
		_, alone, err := CheckBundle(sum, members, fixture.RunRecord(1), rec)
		if (len(alone) > 0) != tc.alone || (err != nil) != (tc.says != "") ||
			err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, %v", name, alone, err)
		}
	}
}

// Views have what a bundle has, for the whole and by region; values of its agents are not known from then on, not even
// those that came before, because they are not all.
func TestViewsOfBundles(t *testing.T) {
	rec, sum, members := bundleOf()
	b, _, err := CheckBundle(sum, members, fixture.RunRecord(1), rec)
	if err != nil {
		t.Fatal(err)
	}
	stage := NewStage(rec)
	var watched uint64
	stage.watch = func(_ uint32, m spatev1.Metric, values histogram.Encoded) {
		if m == spatev1.Metric_METRIC_TTFT {
			watched += values.Count()
		}
	}
	if err := stage.AddBundle(b); err != nil {
		t.Fatal(err)
	}
	v, ok := stage.Window(0)
	if !ok || len(v.Agents) != 2 || len(v.Regions) != 1 {
		t.Fatalf("the window is %+v", v)
	}
	completed := v.Total.Counters.GetCompleted()
	for name, part := range map[string]Measured{"whole": v.Total, "region": v.Regions[0].Measured} {
		if d := part.Summary(spatev1.Metric_METRIC_TTFT); d == nil || d.Count != completed || completed == 0 {
			t.Errorf("%s: TTFT %+v of %d requests", name, d, completed)
		}
	}
	if watched != completed {
		t.Errorf("%d values were watched, of %d requests", watched, completed)
	}
	for _, of := range [][]Part{v.Agents, stage.ToDate().Agents} {
		for _, a := range of {
			if a.Measured.Counters.GetCompleted() == 0 || a.Measured.Summary(spatev1.Metric_METRIC_TTFT) != nil {
				t.Errorf("agent %s: %+v", a.Name, a.Measured)
			}
		}
	}
	own := proto.CloneOf(members[0]) // its next window comes by itself
	own.Key.Sequence, own.Window, own.TakenOut, own.Series = 2, 1, nil, fixture.GoodSnapshot().GetSeries()
	if err := stage.Add(own); err != nil {
		t.Fatal(err)
	}
	if d := stage.ToDate().Agents[0].Measured.Summary(spatev1.Metric_METRIC_TTFT); d != nil {
		t.Errorf("an agent's TTFT is %+v, which is only of its last window", d)
	}
}

// A ledger that has lost the values of a bundle has a result that says so.
func TestLostValuesAreFound(t *testing.T) {
	rec, sum, members := bundleOf()
	stage := NewStage(rec)
	for _, s := range members {
		if err := stage.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	if got := stage.sums.Regions["east"].Discrepancy(); !strings.HasPrefix(got, "has 0 values of ttft_ms") {
		t.Errorf("it says %q", got)
	}
	if err := stage.Add(sum); err != nil {
		t.Fatal(err)
	}
	if got := stage.sums.Regions["east"].Discrepancy(); got != "" {
		t.Errorf("with them, it says %q", got)
	}
	sum.Merged.Region = "mars"
	if err := stage.Add(sum); err == nil {
		t.Error("values of a region without agents were merged")
	}
}

// What a window of 1,000 agents costs a coordinator, in CPU time for each agent: decode, check, add to the ledger,
// merge. Their snapshots come by themselves, or in a bundle.
func BenchmarkWindowOf1000(b *testing.B) {
	rec, run := fixture.StageRecord(0, 0), fixture.RunRecord(1)
	var snapshots []*spatev1.Snapshot
	for i := range 1000 {
		s := fixture.BusySnapshot(i%26, uint64(i)%5+1)
		s.Key.Agent, s.Window = fmt.Sprintf("agent-%04d", i), 0
		sum := bundle.Shared(s)
		s.Shares = []*spatev1.WindowShare{{
			OutputTokens: sum.Tokens, Chunks: sum.Chunks, MicroRequests: sum.MicroRequests,
		}}
		snapshots = append(snapshots, s)
		rec.Agents = append(rec.Agents, &spatev1.AssignedAgent{
			Agent: &spatev1.AgentInfo{Name: s.Key.Agent, Region: "eu"}, Incarnation: s.GetKey().GetIncarnation(), Weight: 1,
		})
	}
	next := func(all [][]byte, add func(decoded []*spatev1.Snapshot) error) {
		decoded := make([]*spatev1.Snapshot, len(all))
		for i, data := range all {
			decoded[i] = &spatev1.Snapshot{}
			if err := proto.Unmarshal(data, decoded[i]); err != nil {
				b.Fatal(err)
			}
		}
		if err := add(decoded); err != nil {
			b.Fatal(err)
		}
	}
	for name, pack := range map[string]func() []*spatev1.Snapshot{
		"by themselves": func() []*spatev1.Snapshot { return snapshots },
		"in a bundle": func() []*spatev1.Snapshot {
			sum, members, _ := bundle.Of(snapshots, &spatev1.Merged{Region: "eu"})
			sum.Key.Agent, sum.Key.Sequence = "relay r", 1
			return append([]*spatev1.Snapshot{sum}, members...)
		},
	} {
		b.Run(name, func(b *testing.B) {
			l, err := ledger.Create(filepath.Join(b.TempDir(), "ledger.db"), ledger.Change{Run: run})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			var all [][]byte
			bytes := 0
			for _, s := range pack() {
				data, err := proto.Marshal(s)
				if err != nil {
					b.Fatal(err)
				}
				all, bytes = append(all, data), bytes+len(data)
			}
			stage, sequence, begin := NewStage(rec), uint64(0), clock.CPU()
			for b.Loop() {
				sequence++
				next(all, func(decoded []*spatev1.Snapshot) error {
					for _, s := range decoded {
						s.Key.Sequence = sequence
					}
					return addWindow(l, stage, decoded, run, rec)
				})
			}
			b.ReportMetric(float64((clock.CPU()-begin).Microseconds())/float64(b.N)/1000, "cpu-us/agent")
			b.ReportMetric(float64(bytes)/1000, "bytes/agent")
		})
	}
}

// addWindow adds snapshots to a ledger and a stage: a bundle if the first has the values of all.
func addWindow(
	l *ledger.Ledger, stage *Stage, all []*spatev1.Snapshot, run *spatev1.RunRecord, rec *spatev1.StageRecord,
) error {
	if all[0].GetMerged() != nil {
		checked, misfits, err := CheckBundle(all[0], all[1:], run, rec)
		if err == nil && len(misfits) > 0 {
			err = fmt.Errorf("%d misfits", len(misfits))
		}
		if err == nil {
			err = l.AppendAll(checked.Snapshots())
		}
		if err != nil {
			return err
		}
		return stage.AddBundle(checked)
	}
	if _, err := l.Append(all); err != nil {
		return err
	}
	for _, s := range all {
		checked, err := Check(s, run, rec)
		if err == nil {
			err = stage.AddChecked(checked)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
