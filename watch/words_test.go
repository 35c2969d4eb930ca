package watch

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// For a silent agent the words say how long it has been silent.
func TestHealth(t *testing.T) {
	for _, test := range []struct {
		health spatev1.AgentHealth
		want   string
	}{
		{spatev1.AgentHealth_AGENT_HEALTH_BUSY, "busy"}, {spatev1.AgentHealth_AGENT_HEALTH_SILENT, "silent 4.3s"},
		{0, "n/a"},
	} {
		got := health(&spatev1.AgentStatus{Health: test.health, SilentFor: durationpb.New(4321 * time.Millisecond)})
		if got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// What others say cannot control a terminal, whichever row or line it is in.
func TestWordsAreHarmless(t *testing.T) {
	const evil = "\x1b[2J\r\u202e"
	agent := &spatev1.AgentInfo{Name: evil, Region: evil, Host: evil, Version: evil}
	run := &spatev1.RunSummary{RunId: evil, Verdict: evil, Submitter: evil}
	for _, cell := range append(
		Fleet([]*spatev1.AgentStatus{{Agent: agent}}).Rows[0].Cells,
		Runs([]*spatev1.RunSummary{run}, time.Now(), time.UTC).Rows[0].Cells...,
	) {
		for _, r := range cell.Text {
			if r < ' ' || r == 0x202e {
				t.Errorf("%q", cell.Text)
			}
		}
	}
}

// Answers in one piece have requests per second and E2E, and no columns that only streams fill.
func TestWholeAnswers(t *testing.T) {
	r := New()
	for _, e := range []*spatev1.RunEvent{
		{Event: &spatev1.RunEvent_StageStarted{StageStarted: &spatev1.StageStarted{Target: "t", Whole: true}}},
		{Event: &spatev1.RunEvent_StageProgress{StageProgress: &spatev1.StageProgress{Completed: 10,
			CompletedPerSecond: new(12.5), OutputTokensPerSecond: new(0.0),
			E2E: &spatev1.Quantiles{P50Ms: 20, P99Ms: 30}}}},
	} {
		r.Take(0, e)
	}
	s := r.Current()
	if Output(s) != "12.5 req/s" || SoFar(s) != "E2E 20.0 / 30.0" {
		t.Errorf("%q, %q", Output(s), SoFar(s))
	}
	all := Stages(r)
	if got := strings.Join(strings.Fields(strings.Join(all.Lines(0), ": ")), " "); got !=
		"stage target workload load state done failed req/s E2E p50 p99: 1 t running 10 0 12.5 20.0 30.0" {
		t.Error(got)
	}
	if m := Metrics(s); len(m) != 1 || m[0].Name != "e2e_ms" {
		t.Errorf("%v", m)
	}
	window := &spatev1.StageWindow{Regions: []*spatev1.WindowPart{{Name: "eu", Seconds: 1, Completed: 7}}}
	regions := Regions(r, window)
	if got := strings.Join(strings.Fields(strings.Join(regions.Lines(0), ": ")), " "); got !=
		"region agents req/s failed E2E p50 p99: eu 0 7.00 0 n/a n/a" {
		t.Error(got)
	}
}

// Output is n/a before the first frame, as latencies are, and 0 if a server that sent frames has stopped.
func TestOutputBeforeTheFirstFrame(t *testing.T) {
	began, ttft := &spatev1.StageStarted{Target: "t"}, &spatev1.Quantiles{P50Ms: 1, P99Ms: 1}
	ended := &spatev1.StageEnded{Complete: true}
	for name, c := range map[string]struct {
		stage Stage
		want  string
	}{
		"no frame yet":      {Stage{Progress: &spatev1.StageProgress{InFlight: 8}}, "n/a"},
		"frames":            {Stage{Progress: &spatev1.StageProgress{FramesPerSecond: 200}}, "200 frames/s"},
		"no frame any more": {Stage{Progress: &spatev1.StageProgress{Ttft: ttft}}, "0.00 frames/s"},
		"no token":          {Stage{Progress: &spatev1.StageProgress{OutputTokensPerSecond: new(0.0)}}, "0.00 tok/s"},
		"ended":             {Stage{Ended: ended, Progress: &spatev1.StageProgress{Ttft: ttft}}, "n/a"},
	} {
		c.stage.Started = began
		if got := Output(&c.stage); got != c.want || !strings.HasPrefix(c.want, outputOf(&c.stage)) {
			t.Errorf("%s: %s, %s in the table, want %s", name, got, outputOf(&c.stage), c.want)
		}
	}
}

// A stage that ended before its coordinator was restarted has no counts: they are n/a, and not 0.
func TestWhatWasNotCounted(t *testing.T) {
	began := &spatev1.StageStarted{Target: "t", Workload: "w", Load: "concurrency 12"}
	for want, s := range map[string]*Stage{
		"n/a": {Started: began, Ended: &spatev1.StageEnded{Complete: true}},
		"0":   {Started: began, Ended: &spatev1.StageEnded{Complete: true}, Progress: &spatev1.StageProgress{}},
	} {
		done, failed := Count(s, Completed(s.Progress)), Count(s, s.Progress.GetFailed())
		if done != want || failed != want {
			t.Errorf("%s completed and %s failed, want %s", done, failed, want)
		}
		errors, _ := Errors(s)
		load, _ := Load(s, nil)
		if unknown := want == Unknown; (errors == Unknown) != unknown || strings.HasSuffix(load, "achieved n/a") != unknown {
			t.Errorf("errors %s, load %s", errors, load)
		}
	}
}

// Classes of errors come with windows, before the progress of their second: failures are never fewer than these.
func TestFailuresAreThoseOfTheClasses(t *testing.T) {
	s := &Stage{Started: &spatev1.StageStarted{}, Progress: &spatev1.StageProgress{Completed: 8, Failed: 1},
		Errors: map[string]uint64{"http_500": 3, "timeout": 1}}
	if got, none := Errors(s); none || got != "4 (50 %): http_500 3, timeout 1" {
		t.Error(got)
	}
}

// A run of one stage has no plural.
func TestRunCountsStages(t *testing.T) {
	for stages, want := range map[uint32]string{1: "0s · 1 stage", 8: "0s · 8 stages"} {
		r := New()
		r.Stages = stages
		if got := RunText(r); got != want {
			t.Errorf("%d: %q", stages, got)
		}
	}
}
