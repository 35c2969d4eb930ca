package terminal

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/internal/cli/clienttest"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch"
)

func TestPlainProgress(t *testing.T) {
	var out bytes.Buffer
	p := &progress{run: watch.New(), w: &out, width: func() int { return 0 }}
	for _, e := range clienttest.Events() {
		p.show(e)
	}
	want := `2 stages on 2 agents: a, b; latencies are p50/p99 in ms
[1/2] sim  300:15  concurrency 8    2.0 s   1,232 done  2 failed   45,678 tok/s  TTFT  12.3/1,235  TPOT  5.02/9.50
[2/2] sim  300:15  concurrency 8
✗ target sim is dead
! careful
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}

// A stage that no agent accepted is reported at once. Stages that are skipped because of it are not.
func TestProgressSaysWhatWasNotRun(t *testing.T) {
	var out bytes.Buffer
	p := &progress{run: watch.New(), w: &out, width: func() int { return 0 }}
	for i, failure := range []string{"agent a rejected its assignment: no",
		"skipped: agent a rejected its assignment: no"} {
		p.show(&spatev1.RunEvent{Event: &spatev1.RunEvent_StageEnded{
			StageEnded: &spatev1.StageEnded{StageIndex: uint32(i), Failure: failure}}})
	}
	if want := "✗ stage 1 was not run: agent a rejected its assignment: no\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestTerminalProgressRewritesOneLineWithinTheWidth(t *testing.T) {
	var out bytes.Buffer
	p := &progress{run: watch.New(), w: &out, terminal: true, width: func() int { return 40 }}
	for _, e := range clienttest.Events()[:3] {
		p.show(e)
	}
	_, live, found := strings.Cut(out.String(), "in ms\n")
	if !found || strings.Contains(live, "\n") {
		t.Fatalf("the live line broke: %q", live)
	}
	for text := range strings.SplitSeq(live, "\r\x1b[K") {
		if n := len([]rune(text)); n >= 40 {
			t.Errorf("%d runes do not fit into 40: %q", n, text)
		}
	}
}

// Answers in one piece have neither frames nor tokens that arrive one by one.
func TestProgressOfWholeAnswers(t *testing.T) {
	var out bytes.Buffer
	p := &progress{run: watch.New(), w: &out, width: func() int { return 0 }}
	for _, e := range []*spatev1.RunEvent{
		{Event: &spatev1.RunEvent_StageStarted{StageStarted: &spatev1.StageStarted{Target: "t", Whole: true}}},
		{Event: &spatev1.RunEvent_StageProgress{StageProgress: &spatev1.StageProgress{Completed: 10,
			CompletedPerSecond: new(12.5), E2E: &spatev1.Quantiles{P50Ms: 20, P99Ms: 30}}}},
		{Event: &spatev1.RunEvent_StageEnded{StageEnded: &spatev1.StageEnded{Complete: true}}},
	} {
		p.show(e)
	}
	if got := strings.Join(strings.Fields(out.String()), " "); got != "[1/0] t 0.0 s 10 done 12.5 req/s E2E 20.0/30.0" {
		t.Error(got)
	}
}

// A plain log shows the progress of a long stage, but not each second.
func TestPlainProgressIsThinned(t *testing.T) {
	var out bytes.Buffer
	p := &progress{run: watch.New(), w: &out, width: func() int { return 0 }}
	p.show(clienttest.Events()[0])
	p.show(clienttest.Events()[1])
	for s := range 35 {
		p.show(&spatev1.RunEvent{Event: &spatev1.RunEvent_StageProgress{StageProgress: &spatev1.StageProgress{
			Elapsed: durationpb.New(time.Duration(s) * time.Second),
		}}})
	}
	if got := strings.Count(out.String(), "in flight"); got != 3 {
		t.Errorf("%d lines for 35 s, want 3:\n%s", got, out.String())
	}
}

func TestBarWithoutAnEnd(t *testing.T) {
	p := &progress{stage: &watch.Stage{Started: &spatev1.StageStarted{},
		Progress: &spatev1.StageProgress{Elapsed: durationpb.New(3 * time.Second)}}}
	if got := p.bar(); got != "3 s" {
		t.Errorf("bar = %q: a stage without a known end has no share", got)
	}
	p.stage.Started.ExpectedRequests = 10
	p.stage.Progress.Completed = 5
	if got := p.bar(); got != "█████░░░░░ 3 s" {
		t.Errorf("bar = %q", got)
	}
}

// searchPlan is a plan with one target and one workload.
const searchPlan = `
name: p
targets: [{name: sim, simulator: {}}]
workloads: [{random: {isl: 300, osl: 15}}]
loads: [{search: {rate: {from: 1, to: 8}, keep: {error_share: 0}, probes: 2}, duration: 1s}]
`

// TestSearchProgress: the number of a search's stages is not known, and a narrow terminal gets lines that fit.
// Rates and latencies are the plan's, as the coordinator says them.
func TestSearchProgress(t *testing.T) {
	plan, err := plans.Load("p", []byte(searchPlan), plans.Options{Changes: plans.Changes{Simulate: 4}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		width int
		want  string
	}{
		{140, "[1/≤2] sim  300:15  concurrency 8           2.0 s   1,232 done  2 failed   45,678 tok/s  TTFT  12.3/1,235  TPOT  5.02/9.50"},
		{90, "[1/≤2] concurrency 8 1,232 done 2 failed 45,678 tok/s TTFT 12.3/1,235 TPOT 5.02/9.50"},
		{80, "[1/≤2] concurrency 8 1,232 done 2 failed 45,678 tok/s TTFT 12.3/1,235\n  TPOT 5.02/9.50"},
	} {
		var out bytes.Buffer
		p := &progress{run: watch.New(), w: &out, terminal: true, width: func() int { return tc.width }}
		p.expect(plan)
		for _, e := range clienttest.Events()[:4] {
			if begin := e.GetRunStarted(); begin != nil {
				begin.Plan = plans.Planned(plan.Outline())
			}
			p.show(e)
		}
		lines := strings.Split(out.String(), "\n")
		if lines[0] != "SIMULATION: built-in engines, time compressed 4 times (rates x 4, times / 4)" ||
			!strings.HasPrefix(lines[1], "up to 2 stages on 2 agents") {
			t.Errorf("begins %q", lines[:2])
		}
		stays := strings.TrimSuffix(strings.Join(lines[2:], "\n"), "\n")
		if got := stays[strings.LastIndex(stays, "\x1b[K")+len("\x1b[K"):]; got != tc.want {
			t.Errorf("at %d columns\n%q, want\n%q", tc.width, got, tc.want)
		}
	}
}

// A note takes one line: its first sentence, and where the rest is. A warning is shown whole.
func TestNotesAreShort(t *testing.T) {
	var out bytes.Buffer
	p := &progress{run: watch.New(), w: &out, width: func() int { return 0 }}
	p.show(Notice(spatev1.Severity_SEVERITY_INFO, "t: Outputs of m.0 can be shorter. Set exact_output. Why: x."))
	p.show(Notice(spatev1.Severity_SEVERITY_INFO, "One."))
	p.show(Notice(spatev1.Severity_SEVERITY_WARNING, "This. And that."))
	if want := "  t: Outputs of m.0 can be shorter. What to do: report.md, Targets and prompts.\n  One.\n! This. And that.\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}

// TestQuietProgress: without progress only problems are shown.
func TestQuietProgress(t *testing.T) {
	var out bytes.Buffer
	p := &progress{run: watch.New(), w: &out, width: func() int { return 0 }}
	for _, e := range append(clienttest.Events(), Notice(spatev1.Severity_SEVERITY_INFO, "good to know")) {
		p.warn(e)
	}
	if out.String() != "! careful\n" {
		t.Errorf("%q", out.String())
	}
}

var escape = regexp.MustCompile(`\x1b\[\d+m`)

// Colours change no character and no width. Without a terminal there are no colours.
func TestColoursChangeNoText(t *testing.T) {
	shown := func(colours Palette) string {
		var out bytes.Buffer
		p := &progress{run: watch.New(), w: &out, terminal: true, width: func() int { return 100 }, colours: colours}
		for _, e := range clienttest.Events() {
			p.show(e)
		}
		return out.String()
	}
	coloured, plain := shown(true), shown(false)
	if got := escape.ReplaceAllString(coloured, ""); got != plain {
		t.Errorf("%q\n%q", got, plain)
	}
	for _, want := range []string{"\x1b[31m2 failed\x1b[0m", "\x1b[31m✗ \x1b[0m", "\x1b[33m! \x1b[0m", "\x1b[36m█"} {
		if !strings.Contains(coloured, want) {
			t.Errorf("no %q in %q", want, coloured)
		}
	}
	if escape.MatchString(plain) || bool(PaletteOf(&bytes.Buffer{})) {
		t.Error("colours without a terminal")
	}
}
