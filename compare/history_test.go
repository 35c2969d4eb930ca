package compare

import (
	"fmt"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
)

// runOn returns a run of a plan that began on a day, with its stages.
func runOn(day int, plan string, stages ...results.StageResult) *Run {
	for i := range stages {
		stages[i].Index = uint32(i)
	}
	begin := time.Date(2026, 1, day, 12, 0, 0, 0, time.UTC).Format(time.RFC3339)
	return &Run{Name: "files", Result: &results.Result{
		Run: results.RunResult{ID: fmt.Sprint(plan, "-", day), Plan: &plan, BeginTime: &begin, Version: "v1",
			Targets: []results.RunTarget{{Name: "x", Labels: map[string]string{"image": fmt.Sprint(day)}}}},
		Stages: stages,
	}}
}

func metricNamed(t *testing.T, name string) *Metric {
	t.Helper()
	for i := range Metrics {
		if Metrics[i].Name == name {
			return &Metrics[i]
		}
	}
	t.Fatalf("no metric %s", name)
	return nil
}

// Each stage is compared with that of the last run before it of which the same was asked and that can be believed.
func TestHistory(t *testing.T) {
	wrong := stageOf("x", "1", 999)
	wrong.Trust.Verdict = trust.Invalid
	runs := []*Run{
		runOn(9, "p", stageOf("x", "1", 12), stageOf("y", "1", 30)), runOn(1, "p", stageOf("x", "1", 10)),
		runOn(5, "p", wrong, stageOf("x", "2", 5)), runOn(3, "q", stageOf("x", "1", 77)),
		runOn(7, "p", stageOf("x", "2", 10)),
		{Result: &results.Result{Stages: []results.StageResult{stageOf("x", "1", 1)}}}, // without a time
	}
	lines, err := History(runs, metricNamed(t, "ttft_ms.mean"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range lines {
		text := fmt.Sprintf("%s %s %s:", l.Plan, l.Target, l.Load)
		for _, p := range l.Points {
			text += fmt.Sprintf(" %d=%g", p.GetTime().AsTime().Day(), p.Value)
			if p.Against != "" {
				text += fmt.Sprintf("(%+.3g %s than %s)", *p.Change, p.Outcome, p.Against)
			}
		}
		got = append(got, text)
	}
	want := []string{
		"p x 1: 1=10 5=999 9=12(+0.2 untested than p-1)", "q x 1: 3=77",
		"p x 2: 5=5 7=10(+1 untested than p-5)", "p y 1: 9=30",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	if p := lines[0].Points[2]; p.Labels["image"] != "9" || p.Version != "v1" || p.Verdict != string(trust.Valid) {
		t.Errorf("%v", p)
	}
}
