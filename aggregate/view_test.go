package aggregate

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestWindowsAddUpToTheStage(t *testing.T) {
	rec := fixture.StageRecord(0, 2)
	stage := merged(t, rec, recorded(rec, steadyRequests(2, 50), endWindow))
	sum := &spatev1.Counters{}
	regions, agents := &spatev1.Counters{}, &spatev1.Counters{}
	for w := range uint32(5) {
		v, ok := stage.Window(w)
		if !ok || v.Window != w || v.PeakInFlight != 6 {
			t.Errorf("window %d: %v, %+v", w, ok, v)
		}
		if d := v.Total.Distribution(spatev1.Metric_METRIC_TTFT); d == nil ||
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
	if d := v.Total.Distribution(spatev1.Metric_METRIC_RECEIVE_LAG); d != nil {
		t.Errorf("receive lag %+v of no values", d)
	}
}

// names returns the names of parts.
func names(parts []Part) (list []string) {
	for _, p := range parts {
		list = append(list, p.Name)
	}
	return list
}

func TestForgottenWindowsStayInTheSums(t *testing.T) {
	rec := fixture.StageRecord(0, 2)
	snapshots := recorded(rec, steadyRequests(2, 50), endWindow)
	want := resultJSON(t, merged(t, rec, snapshots), rec)
	stage := NewStage(rec)
	for i, s := range snapshots {
		if err := stage.Add(s); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			stage.Forget(1)
		}
	}
	if got := resultJSON(t, stage, rec); got != want {
		t.Errorf("the result is\n%s\nwant\n%s", got, want)
	}
	for w, want := range []bool{false, false, true, true, true, false} {
		if _, ok := stage.Window(uint32(w)); ok != want {
			t.Errorf("window %d there: %v", w, ok)
		}
	}
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

// Waiting leaves out agents that failed without a loss, for example an observer that was not ready.
func TestWhoTakesNoPartIsNotWaitedFor(t *testing.T) {
	rec := fixture.StageRecord(0, 3)
	rec.Agents[1].Observer, rec.Agents[1].Failure = true, "was not ready when the others were"
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
	snapshots := recorded(rec, steadyRequests(1, 50), endWindow)
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

func TestConcurrentAddsLoseNothing(t *testing.T) {
	rec := fixture.StageRecord(0, 4)
	snapshots := recorded(rec, steadyRequests(4, 50), endWindow)
	stage := NewStage(rec)
	var all sync.WaitGroup
	for _, s := range snapshots {
		all.Go(func() {
			if err := stage.Add(s); err != nil {
				t.Error(err)
			}
			stage.ToDate()
			stage.Forget(0)
		})
	}
	all.Wait()
	if missing := stage.Missing(rec); len(missing) > 0 {
		t.Errorf("missing %q", missing)
	}
}
