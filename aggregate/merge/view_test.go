package merge

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// merged merges snapshots, which must all pass the check.
func merged(t testing.TB, rec *spatev1.StageRecord, snapshots []*spatev1.Snapshot) *Stage {
	t.Helper()
	stage := NewStage(rec)
	for _, s := range snapshots {
		if _, err := Check(s, fixture.RunRecord(1), rec); err != nil {
			t.Fatal(err)
		}
		if err := stage.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	return stage
}

func TestWindowsAddUpToTheStage(t *testing.T) {
	rec := fixture.StageRecord(0, 2)
	stage := merged(t, rec, fixture.Recorded(rec, fixture.SteadyRequests(2, 50), fixture.EndWindow))
	sum := &spatev1.Counters{}
	regions, agents := &spatev1.Counters{}, &spatev1.Counters{}
	for w := range uint32(5) {
		v, ok := stage.Window(w)
		if !ok || v.Window != w || v.PeakInFlight != 6 {
			t.Errorf("window %d: %v, %+v", w, ok, v)
		}
		if d := v.Total.Summary(spatev1.Metric_METRIC_TTFT); d == nil ||
			d.Count != v.Total.Counters.GetCompleted() {
			t.Errorf("window %d: TTFT %+v", w, d)
		}
		measure.AddTo(sum, v.Total.Counters)
		for _, p := range v.Regions {
			measure.AddTo(regions, p.Measured.Counters)
		}
		for _, p := range v.Agents {
			measure.AddTo(agents, p.Measured.Counters)
		}
	}
	v := stage.ToDate()
	for _, c := range []*spatev1.Counters{sum, regions, agents} {
		if measure.CountsOf(c) != measure.CountsOf(v.Total.Counters) {
			t.Errorf("windows add up to %v, the stage has %v", c, v.Total.Counters)
		}
	}
	if v.Window != 4 || fmt.Sprint(names(v.Regions), names(v.Agents)) != "[east west] [a b]" {
		t.Errorf("to date: window %d, regions %v, agents %v", v.Window, names(v.Regions), names(v.Agents))
	}
	if d := v.Total.Summary(spatev1.Metric_METRIC_RECEIVE_LAG); d != nil {
		t.Errorf("receive lag %+v of no values", d)
	}
}

// mixedIn makes the workload of a stage a mixture of a and b, and series of every second snapshot those of b.
func mixedIn(rec *spatev1.StageRecord, snapshots []*spatev1.Snapshot) {
	m := &spatev1.Mixture{}
	for _, name := range []string{"a", "b"} {
		m.Parts = append(m.Parts, &spatev1.Part{Weight: 1, Workload: &spatev1.Workload{Name: name}})
	}
	rec.Stage.Workload = &spatev1.Workload{Content: &spatev1.Workload_Mix{Mix: m}}
	for i, s := range snapshots {
		for _, series := range s.GetSeries() {
			series.Part = uint32(i % 2)
		}
	}
}

// The parts of a mixture add up to the stage, in its windows too, with all of its metrics.
func TestPartsAddUpToTheStage(t *testing.T) {
	rec := fixture.StageRecord(0, 3)
	snapshots := fixture.Recorded(rec, fixture.SteadyRequests(3, 50), fixture.EndWindow)
	mixedIn(rec, snapshots)
	var want [2]uint64
	for _, s := range snapshots {
		for _, series := range s.GetSeries() {
			want[series.GetPart()] += series.GetCounters().GetCompleted()
		}
	}
	stage := merged(t, rec, snapshots)
	windows := [2]*spatev1.Counters{{}, {}}
	for w := range uint32(5) {
		v, _ := stage.Window(w)
		for i, p := range v.Parts {
			measure.AddTo(windows[i], p.Measured.Counters)
		}
	}
	v := stage.ToDate()
	if fmt.Sprint(names(v.Parts)) != "[a b]" || want[0] == 0 || want[1] == 0 {
		t.Fatalf("parts %v, completed %v", names(v.Parts), want)
	}
	for i, p := range v.Parts {
		ttft := p.Measured.Summary(spatev1.Metric_METRIC_TTFT)
		if n := p.Measured.Counters.GetCompleted(); n != want[i] || windows[i].GetCompleted() != n || ttft.Count != n ||
			p.Measured.Summary(spatev1.Metric_METRIC_VLLM_TTFT) == nil {
			t.Errorf("part %s: %d completed, %d in windows, want %d", p.Name, n, windows[i].GetCompleted(), want[i])
		}
	}
	if total := v.Total.Counters.GetCompleted(); total != want[0]+want[1] {
		t.Errorf("the stage has %d completed, its parts %v", total, want)
	}
}

// names returns the names of parts.
func names(parts []Part) (list []string) {
	for _, p := range parts {
		list = append(list, p.Name)
	}
	return list
}

func TestWaitingNamesTheAgentsBehind(t *testing.T) {
	rec := fixture.StageRecord(0, 2)
	stage := NewStage(rec)
	add := func(agent string, sequence uint64, totals bool) {
		s := fixture.SnapshotOf(0, agent, 1, sequence)
		if totals {
			s.Totals = &spatev1.Totals{Snapshots: sequence}
		}
		if err := stage.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	check := func(window uint32, want string) {
		t.Helper()
		if got := strings.Join(stage.Waiting(window), " "); got != want {
			t.Errorf("window %d waits for %q, want %q", window, got, want)
		}
	}
	check(0, "a b")
	add("a", 1, false)
	check(0, "b")
	check(1, "b")
	check(2, "a b")
	add("b", 1, true)
	check(2, "a")
	check(1, "")
}

// Waiting leaves out agents that failed without a loss.
func TestWhoTakesNoPartIsNotWaitedFor(t *testing.T) {
	rec := fixture.StageRecord(0, 3)
	rec.Agents[1].Failure = "was not ready when the others were"
	if got := NewStage(rec).Waiting(0); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("waits for %v", got)
	}
	rec.Agents[1].Failure = ""
	s := NewStage(rec)
	rec.Agents[1].Failure = "lost: no heartbeat for 3.5s"
	s.Update(rec)
	if got := s.Waiting(0); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("waits for %v", got)
	}
}

func TestAViewIsACopy(t *testing.T) {
	rec := fixture.StageRecord(0, 1)
	snapshots := fixture.Recorded(rec, fixture.SteadyRequests(1, 50), fixture.EndWindow)
	stage := merged(t, rec, snapshots[:1])
	v := stage.ToDate()
	before := fmt.Sprint(v)
	for _, s := range snapshots[1:] {
		if err := stage.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	if after := fmt.Sprint(v); after != before {
		t.Errorf("the view changed from\n%s\nto\n%s", before, after)
	}
}

// Waiting leaves out agents that were lost, had not joined, or are far behind.
func TestWaitingForThoseThatMayStillCome(t *testing.T) {
	rec := fixture.StageRecord(0, 4)
	rec.Agents[2].JoinedNs = 3.5e9
	stage := NewStage(rec)
	add := func(agent string, window uint32) {
		t.Helper()
		s := fixture.SnapshotOf(0, agent, 1, uint64(window)+1)
		s.Window = window
		if err := stage.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	check := func(window uint32, want string) {
		t.Helper()
		if got := strings.Join(stage.Waiting(window), " "); got != want {
			t.Errorf("window %d waits for %q, want %q", window, got, want)
		}
	}
	add("a", 4)
	check(2, "b d")
	check(3, "b c d")
	add("d", 3)
	check(3, "b c")
	lost := proto.CloneOf(rec)
	lost.Agents[1].Loss = &spatev1.Loss{FromWindow: 0}
	stage.Update(lost)
	check(3, "c")
	add("a", 3+patience-1)
	check(3, "c")
	add("a", 3+patience)
	check(3, "")
	check(4, "c d")
}
