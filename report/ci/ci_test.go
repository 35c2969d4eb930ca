package ci

import (
	"encoding/xml"
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
)

func invalid(v trust.Verdict) bool { return v == trust.Invalid }

// example returns a run with a good, a doubtful, an invalid and an incomplete stage, and thresholds of all outcomes.
func example() *results.Result {
	stage := func(i uint32, v trust.Verdict, missing ...string) results.StageResult {
		s := results.StageResult{Index: i, Target: "t<&>", Workload: "w", Load: results.Load{Words: "concurrency 8"},
			Complete: len(missing) == 0, Missing: missing, Trust: trust.Trust{Verdict: v}, DurationS: new(1.5)}
		if v != trust.Valid {
			s.Trust.Checks = []trust.Check{{Name: "errors", Verdict: v, Words: "100 % failed\nall"}}
		}
		return s
	}
	of := func(i uint32, passed bool, words string) results.ThresholdStage {
		return results.ThresholdStage{Index: i, Target: "t", Workload: "w", Load: "l", Passed: passed, Words: words}
	}
	return &results.Result{
		Headline: &results.Headline{Sentences: []string{"The answer."}},
		Run:      results.RunResult{ID: "r", BeginTime: new("2026-03-29T12:00:00.5Z"), Missing: []string{"a", "b"}},
		Stages: []results.StageResult{stage(0, trust.Valid), stage(1, trust.Suspect), stage(2, trust.Invalid),
			stage(3, trust.Valid, "it was stopped")},
		Thresholds: []results.Threshold{
			{That: "e2e_ms.p99 < 5", Part: new("chat"), Stages: []results.ThresholdStage{of(0, false, "8, want < 5")}},
			{That: "ttft_ms.p99 < 5", Stages: []results.ThresholdStage{of(0, true, "4"), of(1, false, "6, want < 5"),
				of(2, false, "7, want < 5")}},
			{That: "x", Reason: new("none")},
		},
	}
}

// worse returns a comparison in which one of two stages is worse.
func worse() *Baseline {
	return &Baseline{Answer: []string{"b against a: WORSE"}, Fails: "1 number worse", NotCompared: []string{"t, w, 3: INVALID"}, Stages: []BaselineStage{
		{Name: "t, w, 1"}, {"t, w, 2", []string{"E2E: +5 %"}},
	}}
}

// TestJUnit reads the file again and compares it, case by case.
func TestJUnit(t *testing.T) {
	var b strings.Builder
	base := worse()
	if err := JUnit(&b, example(), base, invalid); err != nil {
		t.Fatal(err)
	}
	var root suites
	if err := xml.Unmarshal([]byte(b.String()), &root); err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	var got []string
	for _, s := range root.Suites {
		for _, c := range s.Cases {
			line := s.Name + "|" + c.Class + "|" + c.Name + "|" + c.Output
			if c.Failure != nil {
				line += "|" + c.Failure.Type + "|" + c.Failure.Message
				if s.Name == "baseline" {
					line += "|" + c.Failure.Text
				}
			}
			got = append(got, line)
		}
	}
	want := `trust|run|complete|The answer.|incomplete|the run is incomplete
trust|trust|1: t<&>, w, concurrency 8|
trust|trust|2: t<&>, w, concurrency 8|SUSPECT: 100 % failed
all
trust|trust|3: t<&>, w, concurrency 8||INVALID|the stage is INVALID
trust|trust|4: t<&>, w, concurrency 8||incomplete|the stage is incomplete
thresholds|e2e_ms.p99 < 5 (part chat)|1: t, w, l||threshold|e2e_ms.p99 < 5 (part chat): 8, want < 5
thresholds|ttft_ms.p99 < 5|1: t, w, l|4
thresholds|ttft_ms.p99 < 5|2: t, w, l||threshold|ttft_ms.p99 < 5: 6, want < 5
thresholds|ttft_ms.p99 < 5|3: t, w, l||threshold|ttft_ms.p99 < 5: 7, want < 5
thresholds|x|no stage||threshold|x: none
baseline|baseline|comparison|b against a: WORSE|baseline|1 number worse|t, w, 3: INVALID
baseline|baseline|t, w, 1|
baseline|baseline|t, w, 2||worse|worse than the baseline|E2E: +5 %`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if root.Tests != 13 || root.Failures != 9 || root.Suites[0].Failures != 3 ||
		root.Suites[0].Timestamp != "2026-03-29T12:00:00" {
		t.Errorf("%+v", root)
	}
}

// TestAnnotations: one line each, whatever the texts are, and no more than GitHub shows.
func TestAnnotations(t *testing.T) {
	var b strings.Builder
	r := example()
	base := worse()
	if err := Annotations(&b, r, base, invalid); err != nil {
		t.Fatal(err)
	}
	want := `::error title=Threshold failed::e2e_ms.p99 < 5 (part chat): stage 1: t, w, l: 8, want < 5
::error title=Threshold failed::ttft_ms.p99 < 5: stage 2: t, w, l: 6, want < 5
::error title=Threshold failed::x: none
::error title=Comparison failed::1 number worse%0At, w, 3: INVALID
::error title=Worse than the baseline::t, w, 2: E2E: +5 %25
::error title=Stage INVALID::3: t<&>, w, concurrency 8: 100 %25 failed%0Aall
::error title=Stage incomplete::4: t<&>, w, concurrency 8: it was stopped
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	for range 20 {
		r.Thresholds = append(r.Thresholds, r.Thresholds[1])
	}
	b.Reset()
	if err := Annotations(&b, r, nil, invalid); err != nil || strings.Count(b.String(), "\n") != mostAnnotations {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// TestJUnitOfAComparisonThatPasses: numbers that are worse do not fail a case if the comparison does not count.
func TestJUnitOfAComparisonThatPasses(t *testing.T) {
	base := worse()
	base.Fails = ""
	s := baselineSuite(base)
	for _, c := range s.Cases {
		if c.Failure != nil {
			t.Errorf("%+v", c)
		}
	}
	if s.Cases[2].Output != "E2E: +5 %" {
		t.Errorf("%+v", s.Cases[2])
	}
}
