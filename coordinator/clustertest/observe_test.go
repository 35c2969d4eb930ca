package clustertest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/coordinator/clustertest"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestSearchThroughTheService(t *testing.T) {
	h := start(t)
	a := h.Agent("a")
	id := h.SubmitPlan(1, clustertest.PlanOf(`{requests: 4, search: {concurrency: {from: 1, to: 64}, keep: {latencies: [{metric: ttft, percentile: 90, at_most: 100ms}]}}}`))
	ttft := map[uint32]time.Duration{1: 20 * time.Millisecond, 2: 50 * time.Millisecond, 3: 200 * time.Millisecond,
		4: 300 * time.Millisecond}
	var seeds []uint64
	// Few requests are SUSPECT, and such a probe decides little.
	for _, want := range []uint32{1, 2, 4, 4, 4, 4, 4, 4, 4, 3, 3, 2} {
		a.Apply()
		st := a.Assigned.GetStage()
		if got := st.GetLoad().GetConcurrency(); got != want || st.GetLoad().GetSearch() != nil ||
			st.GetProbe() == nil {
			t.Fatalf("load %v, probe %v, want concurrency %d", st.GetLoad(), st.GetProbe(), want)
		}
		seeds = append(seeds, st.GetSeed())
		a.Armed()
		a.Acked(clustertest.Closing(clustertest.Values(a.Snapshot(3), 4, ttft[want])))
	}
	events := h.Follow(id)
	if end := events[len(events)-1].GetRunEnded(); !end.GetComplete() {
		t.Errorf("end: %v", end)
	}
	if began := events[0].GetRunStarted(); began.GetStages() != 50 {
		t.Errorf("%v", began)
	}
	if said := clustertest.Texts(events); len(said) != 13 ||
		said[12] != "search of east, 10:5: concurrency 2 is within the limits in 2 of 2 probes, concurrency 3 is too high in 2 of 2 probes "+
			"(p90 TTFT 200 ms > 100 ms); p90 TTFT is known from 4 requests only: give each stage 100 or more; "+
			"SUSPECT: at concurrency 2, at most 0 requests were in flight, planned 2; 12 probes" {
		t.Errorf("notices %q", said)
	}
	slices.Sort(seeds)
	if len(slices.Compact(seeds)) != 12 {
		t.Errorf("seeds %v are not different", seeds)
	}
	rec, err := h.Fetch(id).Run()
	if err != nil {
		t.Fatal(err)
	}
	if rec.GetStages() != 12 || len(rec.GetSeries()) != 1 {
		t.Fatalf("run record %v", rec)
	}
	s := rec.GetSeries()[0]
	if l := s.GetLimits()[0]; l.GetKept() != 2 || l.GetBroke() != 3 || l.GetStageIndex() != 1 ||
		!s.GetConverged() || s.GetStages() != 12 || s.GetTarget() != "east" {
		t.Errorf("search %v", s)
	}
}

func TestPrecisionEndsAStage(t *testing.T) {
	t.Parallel()
	h := start(t)
	a := h.Agent("a")
	id := h.SubmitPlan(1, clustertest.PlanOf(`{concurrency: [1], requests: 100000, until: {metric: ttft, percentile: 50}}`))
	a.Apply()
	a.Armed()
	a.Acked(clustertest.Values(a.Snapshot(0), 10, 20*time.Millisecond)) // too few for an interval
	a.Acked(clustertest.Values(a.Snapshot(1), 30, 20*time.Millisecond))
	stop := a.Stopped()
	if !stop.GetEnough() || stop.GetImmediately() ||
		!strings.HasPrefix(stop.GetReason(), "p50 TTFT 20 ms is known to ±0 %") {
		t.Errorf("stop: %v", stop)
	}
	last := clustertest.Closing(clustertest.Values(a.Snapshot(2), 1, 20*time.Millisecond))
	last.Totals.Snapshots = 3
	last.Totals.Counters = &spatev1.Counters{Started: 41, Completed: 41, OutputTokens: 205, TokensArrived: 205}
	last.Totals.Values[0].Count = 41
	a.Acked(last)
	if end := h.End(id); !end.GetComplete() {
		t.Errorf("end: %v", end)
	}
	if recs, err := h.Fetch(id).Stages(); err != nil || recs[0].GetEnough() == "" || recs[0].GetStopped() {
		t.Errorf("record %v, %v", recs, err)
	}
}

func TestErrorsEndAStage(t *testing.T) {
	t.Parallel()
	h := start(t)
	a := h.Agent("a")
	id := h.SubmitPlan(1, clustertest.PlanOf(`{concurrency: [1], requests: 100000, abort: {error_share: 0.5, after_requests: 3}}`))
	a.Apply()
	a.Armed()
	s := a.Snapshot(0)
	s.Series[0] = &spatev1.Series{
		Counters: &spatev1.Counters{Started: 3, Failed: 3},
		Errors:   []*spatev1.ErrorCount{{Class: spatev1.ErrorClass_ERROR_CLASS_TIMEOUT, Count: 3}},
	}
	a.Acked(s)
	if stop := a.Stopped(); stop.GetEnough() || !stop.GetImmediately() ||
		stop.GetReason() != "aborted: 3 of 3 requests failed, 100 % > 50 %" {
		t.Errorf("stop: %v", stop)
	}
	last := a.Snapshot(1)
	last.Series = nil
	last.Totals = &spatev1.Totals{Snapshots: 2, Counters: &spatev1.Counters{Started: 3, Failed: 3}, Stopped: true}
	a.Acked(last)
	if end := h.End(id); end.GetOutcome() != spatev1.Outcome_OUTCOME_FAILED ||
		!strings.HasPrefix(end.GetReason(), "aborted: 3 of 3") {
		t.Errorf("end: %v", end)
	}
}

func TestWarmupEndsWhenTheLoadIsSteady(t *testing.T) {
	t.Parallel()
	h := start(t)
	a := h.Agent("a")
	id := h.SubmitPlan(1, clustertest.PlanOf(`{concurrency: [1], duration: 60s, warmup: {until_steady: 600s}}`))
	a.Apply()
	a.Armed()
	for window, tokens := range []uint64{0, 10, 40, 80, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100} {
		s := a.Snapshot(uint32(window))
		s.Series[0] = &spatev1.Series{Counters: &spatev1.Counters{UnmeasuredFrames: tokens}}
		a.Acked(s)
	}
	m := a.Hear().GetMeasure()
	if m.GetRef().GetStageIndex() != 0 || m.GetFromNs() <= 0 || m.GetFromNs()%int64(time.Second) != 0 {
		t.Errorf("measure: %v", m)
	}
	a.Say(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Measuring{Measuring: &spatev1.Measuring{
		Ref: m.GetRef(), AskedNs: m.GetFromNs(), FromNs: new(m.GetFromNs()),
	}}})
	if _, err := h.Runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: id}); err != nil {
		t.Fatal(err)
	}
	a.Stopped()
	last := a.Snapshot(14)
	last.Series = nil
	last.Totals = &spatev1.Totals{Snapshots: 15, Counters: &spatev1.Counters{UnmeasuredFrames: 1130}, Stopped: true}
	last.MeasuredFromNs = new(m.GetFromNs())
	a.Acked(last)
	h.End(id)
	if recs, err := h.Fetch(id).Stages(); err != nil || recs[0].GetMeasuredFromNs() != m.GetFromNs() {
		t.Errorf("record %v, %v", recs, err)
	}
}

func TestPreparationIsKept(t *testing.T) {
	h := start(t)
	a := h.Agent("a")
	id := h.SubmitPlan(1, clustertest.PlanOf(`{concurrency: [1], requests: 4}`))
	m := a.Hear().GetAssign()
	a.Assigned = m
	a.Say(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Applied{Applied: &spatev1.Applied{
		Ref: m.GetRef(), ClockUncertaintyNs: 1000,
		Preparation: &spatev1.Preparation{Lengths: "server", Server: "vllm",
			Notes: []string{"the chat template adds 7 tokens"}},
	}}})
	a.Armed()
	a.Acked(clustertest.Closing(clustertest.Values(a.Snapshot(0), 4, time.Millisecond)))
	if said := clustertest.Texts(h.Follow(id)); !slices.Equal(said, []string{"east: the chat template adds 7 tokens"}) {
		t.Errorf("notices %q", said)
	}
	recs, err := h.Fetch(id).Stages()
	if err != nil || recs[0].GetAgents()[0].GetPreparation().GetServer() != "vllm" {
		t.Errorf("record %v, %v", recs, err)
	}
}

// Followers that ask for windows get each window once, merged over its agents, and others get none.
func TestFollowersThatAskGetWindows(t *testing.T) {
	h := start(t)
	a, b := h.Agent("a"), h.Agent("b")
	id := h.SubmitPlan(2, clustertest.PlanOf(`{concurrency: [2], requests: 8}`))
	a.Apply()
	b.Apply()
	a.Armed()
	b.Armed()
	a.Acked(clustertest.Closing(clustertest.Values(a.Snapshot(0), 3, 10*time.Millisecond)))
	b.Acked(clustertest.Closing(clustertest.Values(b.Snapshot(0), 5, 30*time.Millisecond)))
	var windows []*spatev1.StageWindow
	for _, e := range h.Read(&spatev1.FollowRunRequest{RunId: id, Windows: true}) {
		if w := e.GetStageWindow(); w != nil {
			windows = append(windows, w)
		}
	}
	if len(windows) != 1 {
		t.Fatalf("%d windows: %v", len(windows), windows)
	}
	w := windows[0]
	ttft := w.GetWhole().GetDistributions()[0]
	if w.GetNumber() != 0 || w.GetWhole().GetCompleted() != 8 || ttft.GetMetric() != "ttft_ms" || ttft.GetCount() != 8 ||
		ttft.GetMean() != 22.5 || w.GetVerdict() == "" {
		t.Errorf("window %v", w)
	}
	if got := w.GetAgents(); len(got) != 2 || got[0].GetName() != "a" || got[1].GetCompleted() != 5 {
		t.Errorf("agents %v", got)
	}
	for _, e := range h.Follow(id) {
		if e.GetStageWindow() != nil {
			t.Errorf("a follower that did not ask got %v", e)
		}
	}
}

// Each heartbeat is written once, with its time of arrival. Without heartbeats the silence is written.
func TestHealthIsHandedOn(t *testing.T) {
	t.Parallel()
	watch := &clustertest.Recorder{}
	h := start(t, func(c *coordinator.Config) {
		c.OpenSink = func(string) (sink.Sink, error) { return watch, nil }
		c.HeartbeatInterval = time.Millisecond
	})
	a := h.Agent("a")
	id := h.SubmitPlan(1, clustertest.PlanOf(`{concurrency: [1], requests: 4}`))
	began := time.Now()
	for n := range uint64(3) {
		a.Say(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Heartbeat{
			Heartbeat: &spatev1.Heartbeat{Number: n + 1, InFlight: 7, CpuCores: 0.5, ClockUncertaintyNs: 1000},
		}})
		clustertest.Eventually(t, "the heartbeat is handed on", func() bool { return len(watch.Heartbeats("a")) == int(n)+1 })
	}
	silent := func() (seconds float64) {
		watch.Mu.Lock()
		defer watch.Mu.Unlock()
		p := watch.Agents[len(watch.Agents)-1]
		if p.Heartbeat != nil || p.RunID != id {
			return 0
		}
		return *p.SilentSeconds
	}
	clustertest.Eventually(t, "the silence is handed on", func() bool { return silent() > 0.2 })
	beats := watch.Heartbeats("a")
	if p := beats[2]; p.Heartbeat.GetInFlight() != 7 || p.Time.Before(began) || !p.Time.After(beats[0].Time) ||
		p.Plan != "p" {
		t.Errorf("health %+v", p)
	}
	a.Apply()
	for range beats {
		a.Hear() // the heartbeat's answer
	}
	a.Armed()
	a.Acked(clustertest.Closing(clustertest.Values(a.Snapshot(3), 4, time.Millisecond)))
	h.End(id)
}
