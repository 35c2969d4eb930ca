package report

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/histogram"
)

// vllmBlock is a block exactly as vLLM's benchmark printed it.
const vllmBlock = `============ Serving Benchmark Result ============
Successful requests:                     200       
Failed requests:                         0         
Maximum request concurrency:             8         
Benchmark duration (s):                  99.24     
Total input tokens:                      202314    
Total generated tokens:                  1200      
Request throughput (req/s):              2.02      
Output token throughput (tok/s):         12.09     
Peak output token throughput (tok/s):    24.00     
Peak concurrent requests:                9.00      
Total token throughput (tok/s):          2050.81   
---------------Time to First Token----------------
Mean TTFT (ms):                          461.52    
Median TTFT (ms):                        282.00    
P99 TTFT (ms):                           1734.22   
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          99.97     
Median TPOT (ms):                        17.10     
P99 TPOT (ms):                           671.70    
---------------Inter-token Latency----------------
Mean ITL (ms):                           99.88     
Median ITL (ms):                         12.87     
P99 ITL (ms):                            2059.38   
----------------End-to-end Latency----------------
Mean E2EL (ms):                          961.31    
Median E2EL (ms):                        380.10    
P99 E2EL (ms):                           4107.20   
==================================================
`

func TestVLLMBlockIsToTheLetter(t *testing.T) {
	var b strings.Builder
	err := writeVLLM(&b, &results.Result{Stages: []results.StageResult{{
		Load:                  results.Load{Concurrency: new(uint32(8))},
		Requests:              results.Requests{Outcomes: results.Outcomes{Completed: 200}},
		DurationS:             new(99.24),
		InputTokens:           new(uint64(202314)),
		OutputTokens:          new(uint64(1200)),
		RequestThroughput:     new(2.02),
		OutputTokenThroughput: new(12.09),
		TotalTokenThroughput:  new(2050.81),
		Latencies:             results.Latencies{TTFT: distribution(1, 1, 1)}, // by our definition, not vLLM's
		VLLM: results.VLLM{
			TTFT: &results.VLLMMetric{Mean: 461.52, Median: 282, P99: 1734.22},
			TPOT: &results.VLLMMetric{Mean: 99.97, Median: 17.1, P99: 671.7},
			ITL:  &results.VLLMMetric{Mean: 99.88, Median: 12.87, P99: 2059.38},
			E2EL: &results.VLLMMetric{Mean: 961.31, Median: 380.1, P99: 4107.2},

			PeakOutputTokenThroughput: new(24.0), PeakConcurrentRequests: new(uint64(9)),
		},
	}}})
	_, block, _ := strings.Cut(b.String(), "\n")
	if diff := cmp.Diff(vllmBlock, block); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestVLLMTextHasABlockForEachStage(t *testing.T) {
	got := written(t, runDir(t, "", inOrder))["vllm.txt"]
	if n := strings.Count(got, " Serving Benchmark Result "); n != 2 {
		t.Errorf("%d blocks", n)
	}
	if !strings.HasPrefix(got, "Stage 1: Dynamo 3P1D, 100:4, concurrency 1\n") ||
		!strings.Contains(got, "====\n\nStage 2: Dynamo 3P1D, 100:4, concurrency 2\n"+
			"SUSPECT: the server answered 429 to 1 of 40 requests\nFew values: p99 of 39 requests, 95 % confidence: E2E from ") {
		t.Errorf("headings of\n%s", got)
	}
}

func TestWhatVLLMCannotKnowIsSaid(t *testing.T) {
	var b strings.Builder
	err := writeVLLM(&b, &results.Result{Stages: []results.StageResult{{}}})
	if n := strings.Count(b.String(), " n/a "); n != 20 || err != nil {
		t.Errorf("%d numbers are n/a, %v, in\n%s", n, err, b.String())
	}
}

// sweep returns two rows of a published table, and one of an open loop.
func sweep() *results.Result {
	failed := seedStage(128, 6.13, 919.14, 19940.79, 23774.58, 15112.21, 18926.17, 32.41, 35.53)
	failed.Requests = results.Requests{Outcomes: results.Outcomes{Started: 1000, Completed: 514, Failed: 486}}
	failed.Errors = map[string]uint64{"http_429": 480, "connect": 6}
	rate := results.StageResult{
		Stream: true, Target: "Dynamo 3P1D", Workload: "3000:150", Load: results.Load{Words: "2.5 req/s poisson", Rate: new(2.5),
			Arrival: new("poisson")},
		Missing: []string{"agent b sent no totals"},
	}
	return &results.Result{Stages: []results.StageResult{
		seedStage(1, .27, 40.27, 3723.57, 4628.26, 714.26, 1613.88, 20.2, 20.26), failed, rate,
	}}
}

// Published numbers, and a run's numbers divided by them, stand below those of the same plan, target, workload and
// load.
func TestPublishedNumbers(t *testing.T) {
	r := sweep()
	r.Run.Plan = new("dynamo-vllm-h20")
	r.Stages = r.Stages[:1]
	r.Stages[0].Target, r.Stages[0].OutputTokenThroughput = "dynamo-3p1d", new(60.405)
	r.Stages = append(r.Stages, seedStage(3, 1, 1, 1, 1, 1, 1, 1, 1)) // a load without published numbers
	r.Stages[1].Target = "dynamo-3p1d"
	var b strings.Builder
	if err := Table(&b, r, 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"published          0.27         40.27  3723.57  4628.26  714.26  1613.88  20.20  20.26\n" +
			"    ratio          1.00          1.50     1.00     1.00    1.00     1.00   1.00   1.00\n",
		"comparison with published numbers: this run is within 30 % of 7 of 8, and within 10 % of 7\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if n := strings.Count(b.String(), "ratio"); n != 1 {
		t.Errorf("%d rows of ratios in\n%s", n, b.String())
	}
}

// Stages whose requests have texts have a column of texts per second, with the mark of requests per second.
func TestTextsPerSecond(t *testing.T) {
	r := sweep()
	r.Stages = r.Stages[:1]
	s := &r.Stages[0]
	s.Stream, s.OutputTokenThroughput, s.TextThroughput = false, nil, new(4.32)
	s.Trust = trust.Trust{Checks: []trust.Check{{Verdict: trust.Suspect, Touches: []string{requestRate}}}}
	var b strings.Builder
	if err := Table(&b, r, 0); err != nil || !strings.Contains(b.String(), "(texts/s)") || !strings.Contains(b.String(), " 4.32! ") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestTable(t *testing.T) {
	for name, c := range map[string]struct {
		width int
		want  string
	}{
		"wide": {0, `
Dynamo 3P1D (ISL:OSL=3000:150)
                Request  Output Token      Mean       P99      Mean       P99   Mean    P99
             Throughput    Throughput       E2E       E2E      TTFT      TTFT   TPOT   TPOT
Concurrency     (req/s)       (tok/s)      (ms)      (ms)      (ms)      (ms)   (ms)   (ms)
        1          0.27         40.27   3723.57   4628.26    714.26   1613.88  20.20  20.26
      128 !        6.13        919.14  19940.79  23774.58  15112.21  18926.17  32.41  35.53
! concurrency 128: 486 of 1000 requests failed (http_429: 480, connect: 6)

Dynamo 3P1D, 3000:150
          Request  Output Token  Mean   P99  Mean   P99  Mean   P99
       Throughput    Throughput   E2E   E2E  TTFT  TTFT  TPOT  TPOT
  QPS     (req/s)       (tok/s)  (ms)  (ms)  (ms)  (ms)  (ms)  (ms)
2.5 !         n/a           n/a   n/a   n/a   n/a   n/a   n/a   n/a
! 2.5 req/s poisson: PARTIAL: agent b sent no totals
`},
		"narrow": {64, `
Dynamo 3P1D (ISL:OSL=3000:150)
             req  tok   E2E   E2E  TTFT  TTFT TPOT TPOT
Concurrency   /s   /s  mean   p99  mean   p99 mean  p99
        1   0.27 40.3  3724  4628   714  1614 20.2 20.3
      128 ! 6.13  919 19941 23775 15112 18926 32.4 35.5
! concurrency 128: 486 of 1000 requests failed (http_429: 480,
  connect: 6)

Dynamo 3P1D, 3000:150
      req tok  E2E E2E TTFT TTFT TPOT TPOT
  QPS  /s  /s mean p99 mean  p99 mean  p99
2.5 ! n/a n/a  n/a n/a  n/a  n/a  n/a  n/a
! 2.5 req/s poisson: PARTIAL: agent b sent no totals
`},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := Table(&b, sweep(), c.width); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), b.String()); diff != "" {
				t.Errorf("%s\n%s", diff, b.String())
			}
		})
	}
}

func TestTableLinesAreEquallyLong(t *testing.T) {
	for _, g := range gridsOf(sweep()) {
		lines := g.table(func(c column) string { return c.wide }, fixed, "  ").Lines()
		for _, line := range lines {
			if utf8.RuneCountInString(line) != utf8.RuneCountInString(lines[0]) {
				t.Errorf("%q\n%q", lines[0], line)
			}
		}
	}
}

func TestMarkdown(t *testing.T) {
	got := written(t, runDir(t, "", inOrder))["report.md"]
	for _, want := range []string{
		"- Plan: sweep, seed 7\n",
		"## Dynamo 3P1D (ISL:OSL=100:4)\n\n| Concurrency | Request Throughput (req/s) | Output Token Throughput (tok/s) | " +
			"Mean E2E Latency (ms) | P99 E2E Latency (ms) | Mean TTFT (ms) | P99 TTFT (ms) | Mean TPOT (ms) | P99 TPOT (ms) |\n|:-:|",
		"\n! concurrency 1: SUSPECT: 1 of 40 requests failed (http_429: 1)",
		"| 1: Dynamo 3P1D, 100:4, concurrency 1 | http_429 | 1 | slow \\| down please |",
		"| 1: Dynamo 3P1D, 100:4, concurrency 1 | 100 | 100.00 | 0 | 4 | 4.00 | 0 | usage |",
		"| a | eu | host-a | v1 | 2 | 40 | 0 | 0.25 ms early ± 0.08 ms |  |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if want := "# Run sweep-1\n\n2 of 80 requests failed (http_429: 2). Dynamo 3P1D carries"; !strings.HasPrefix(got, want) {
		t.Errorf("it begins\n%.200s", got)
	}
	if strings.Contains(got, "PARTIAL") {
		t.Error("a complete run is called partial")
	}
}

func TestMarkdownSaysLoudlyWhatIsMissing(t *testing.T) {
	r := sweep()
	r.Run = results.RunResult{ID: "x", Missing: []string{"stage 2: agent b sent no totals"}}
	var b strings.Builder
	if err := writeMarkdown(&b, r); err != nil {
		t.Fatal(err)
	}
	if want := "# Run x\n\n> **PARTIAL RESULT.** Something is missing:\n>\n> - stage 2: agent b sent no totals\n"; !strings.HasPrefix(b.String(), want) {
		t.Errorf("it begins\n%s", b.String()[:200])
	}
}

// searched returns the result of a search in a compressed simulation with an SLO, and a ramp and a replay beside its
// stages.
func searched() *results.Result {
	r := &results.Result{Run: results.RunResult{TimeCompression: new(20.0), Series: []results.SeriesResult{{
		Kind: "search", Target: "t", Workload: "w", Unit: "rate", Objectives: []string{"p99 TTFT ≤ 25 ms"},
		Limits: []results.LoadLimit{{Kept: new(42.5), Broke: new(43.71234), Reason: new("p99 TTFT 31 ms > 25 ms")}},
		Stages: 3, Converged: true, Sentence: "42.5 req/s is within the " +
			"limits in 2 of 2 probes, 43.71 req/s is too high in 2 of 3 probes (p99 TTFT 31 ms > 25 ms); 9 probes",
	}}}}
	stage := func(load results.Load, good *float64) {
		r.Stages = append(r.Stages, results.StageResult{
			Target: "t", Workload: "w", Load: load, Complete: true, Stream: true, Goodput: &results.Goodput{Share: good},
			OSL:          results.SequenceLength{MissedShare: new(0.004)},
			Preparations: []results.Preparation{{Lengths: "words", Notes: []string{"a note"}}},
		})
	}
	stage(results.Load{Words: "42.5 req/s", Rate: new(42.5)}, new(0.975))
	stage(results.Load{Words: "42.5 req/s", Rate: new(42.5), Repeat: 1}, new(1.0))
	stage(results.Load{Words: "1 to 50 req/s", Rate: new(50.0),
		Phases: []results.Phase{{From: 1, To: 10}, {From: 10, To: 50}}}, nil)
	stage(results.Load{Words: "trace", ReplaySpeed: new(10.0)}, nil)
	r.Stages[3].OSL.MissedShare = new(0.25)
	return r
}

func TestTableOfASearch(t *testing.T) {
	var b strings.Builder
	if err := Table(&b, searched(), 80); err != nil {
		t.Fatal(err)
	}
	want := `SIMULATION with time compressed 20 times. Rates and times in tables are the
plan's; verdicts, thresholds, charts over time and results.json have what was
measured.

t, w
               req tok  E2E E2E TTFT TTFT TPOT TPOT good
           QPS  /s  /s mean p99 mean  p99 mean  p99    %
       2.125   n/a n/a  n/a n/a  n/a  n/a  n/a  n/a 97.5
    2.125 #2   n/a n/a  n/a n/a  n/a  n/a  n/a  n/a  100
0.05-0.5-2.5   n/a n/a  n/a n/a  n/a  n/a  n/a  n/a  n/a
 replay x0.5 ! n/a n/a  n/a n/a  n/a  n/a  n/a  n/a  n/a
! trace: 25.0 % of the outputs did not have the requested length, which requests
  did not enforce
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("%s\n%s", diff, b.String())
	}
}

func TestMarkdownOfASearch(t *testing.T) {
	var b strings.Builder
	if err := writeMarkdown(&b, searched()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"> **SIMULATION with time compressed 20 times", "| Good (%) |", "| 97.50 |",
		"Result: 2.125 req/s is within the limits (p99 TTFT ≤ 500 ms)",
		"| t | w | n/a | words | n/a | no | no | n/a | 0 |\n\n- t: a note\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestASimulationAtThePlansPaceSaysSo(t *testing.T) {
	var b strings.Builder
	if err := Table(&b, &results.Result{Run: results.RunResult{TimeCompression: new(1.0)}}, 0); err != nil {
		t.Fatal(err)
	}
	if want := "SIMULATION: simulated engines in place of the plan's endpoints, at the plan's own pace.\n\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}

// The probes of a search appear in the order of their loads, each with its note. Other stages keep their places.
func TestProbesStandInTheOrderOfTheirLoads(t *testing.T) {
	stage := func(index uint32, rate float64, probe *results.Probe) results.StageResult {
		return results.StageResult{
			Index: index, Target: "t", Workload: "w", Load: results.Load{Words: fmt.Sprint(rate), Rate: new(rate)},
			Probe: probe, Complete: true,
		}
	}
	probe := &results.Probe{Purpose: "bisect"}
	r := &results.Result{Stages: []results.StageResult{
		stage(0, 9, nil), stage(1, 2, probe), stage(2, 8, probe), stage(3, 4, probe), stage(4, 1, nil),
	}}
	r.Stages[2].Enough = new("aborted: 5 of 9 requests failed")
	var b strings.Builder
	if err := Table(&b, r, 0); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, line := range strings.Split(b.String(), "\n")[4:9] {
		order = append(order, strings.Fields(line)[0])
	}
	if got := strings.Join(order, " "); got != "9 2 4 8 1" {
		t.Errorf("%s in\n%s", got, b.String())
	}
	if !strings.Contains(b.String(), "8 !") ||
		!strings.Contains(b.String(), "! 8: ended early: aborted: 5 of 9 requests failed\n") {
		t.Errorf("no note in\n%s", b.String())
	}
}

// report.md puts targets side by side if there are several.
func TestTargetsSideBySide(t *testing.T) {
	r := &results.Result{Stages: []results.StageResult{{Target: "a", Workload: "w"}, {Target: "b", Workload: "w"}}}
	for several, stages := range map[bool][]results.StageResult{true: r.Stages, false: r.Stages[:1]} {
		var b strings.Builder
		if err := writeMarkdown(&b, &results.Result{Stages: stages}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "\n## Targets side by side\n\n### w\n\n| Load | Target |"); got != several {
			t.Errorf("%v, want %v: %s", got, several, b.String())
		}
	}
}

// An error text of a server cannot control the terminal of who reads the tables or report.md.
func TestServersCannotControlTerminals(t *testing.T) {
	r := sweep()
	r.Stages[0].Requests.Failed, r.Stages[0].Requests.Started = 1, 2
	r.Stages[0].Errors = map[string]uint64{"http_500": 1}
	r.Stages[0].ErrorExamples = map[string]string{"http_500": "boom\x1b[31m\x1b]0;title\x07\u009b1m\u202egpj"}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"table":   func(b *bytes.Buffer) error { return Table(b, r, 80) },
		"report":  func(b *bytes.Buffer) error { return writeMarkdown(b, r) },
		"summary": func(b *bytes.Buffer) error { return Summary(b, r) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if name != "summary" && !strings.Contains(b.String(), "boom") {
			t.Errorf("%s lacks the example", name)
		}
		if strings.ContainsAny(b.String(), "\x1b\x07\u009b\u202e") {
			t.Errorf("%s: control characters of a server", name)
		}
	}
}

// The terminal shows the parts of a mixture below the whole, by load.
func TestPartsAreInTheTerminal(t *testing.T) {
	part := func(name string) results.PartResult {
		return results.PartResult{Name: name, Weight: 1, Share: new(0.5)}
	}
	r := &results.Result{Stages: []results.StageResult{{Target: "t", Workload: "both", Load: results.Load{Words: "replay"},
		Parts: []results.PartResult{part("chat"), part("batch")}}}}
	var b strings.Builder
	if err := Table(&b, r, 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"replay !  t       chat      50.00", "replay !  t       batch     50.00"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}

// A table of answers in one piece has no columns that only streams fill.
func TestWholeAnswersHaveNoColumnsOfStreams(t *testing.T) {
	r := &results.Result{Stages: []results.StageResult{{Target: "t", Workload: "w", Load: results.Load{Words: "replay"},
		RequestThroughput: new(12.5), Goodput: &results.Goodput{Share: new(0.5)}}}}
	var terminal, markdown strings.Builder
	if err := errors.Join(Table(&terminal, r, 0), writeMarkdown(&markdown, r)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(terminal.String()), " "); strings.Contains(got, "TTFT") ||
		!strings.Contains(got, "12.50 n/a n/a 50.00") {
		t.Error(terminal.String())
	}
	if !strings.Contains(markdown.String(), "P99 E2E Latency (ms) | Good (%) |\n") ||
		strings.Contains(markdown.String(), "Output Token Throughput (tok/s) |") {
		t.Error(markdown.String())
	}
	again := r.Stages[0]
	again.OutputTokenThroughput = new(7.0)
	r.Stages = append(r.Stages, again)
	terminal.Reset()
	if err := Table(&terminal, r, 0); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(terminal.String()), " "); !strings.Contains(got, "12.50 n/a n/a n/a 50.00") ||
		!strings.Contains(got, "12.50 7.00 n/a n/a 50.00") {
		t.Error("tokens of one stage have no column:\n" + terminal.String())
	}
}

// Notes that differ in numbers are one line, with the worst stage's. The terminal omits late ends of a few
// milliseconds.
func TestNotesOfOneKindAreOneLine(t *testing.T) {
	r := &results.Result{}
	for i, n := range []string{"9 of 90", "20 of 50"} {
		r.Stages = append(r.Stages, results.StageResult{Index: uint32(i), Target: "t", Workload: "w", Trust: trust.Trust{
			Verdict: trust.Valid, Notes: []string{n + " responses ended late, 2 ms", n + " held back"}}})
		r.Stages[i].LateEnd = &histogram.Summary{P50: 2.1}
	}
	var terminal, markdown strings.Builder
	if err := errors.Join(Table(&terminal, r, 0), writeMarkdown(&markdown, r)); err != nil {
		t.Fatal(err)
	}
	const held, late = "stages 1, 2, such as 2: 20 of 50 held back", "stages 1, 2, such as 2: 20 of 50 responses ended late, 2 ms"
	if got := terminal.String(); !strings.Contains(got, "Note: "+held) || strings.Count(got, "Note: ") != 1 {
		t.Error(got)
	}
	if got := markdown.String(); !strings.Contains(got, held) || !strings.Contains(got, late) {
		t.Error(got)
	}
	r.Stages[1].LateEnd.P50 = 101
	if terminal.Reset(); Table(&terminal, r, 0) != nil || !strings.Contains(terminal.String(), "20 of 50 responses ended late") {
		t.Error(terminal.String())
	}
}

func TestSeverity(t *testing.T) {
	for _, c := range [][2]string{
		{"lower the throughput by 5.83 %: higher", "lower the throughput by 19.4 %: higher"},
		{"max_in_flight 4 held back 90 of 900 requests, for 9 s", "max_in_flight 4 held back 50 of 60 requests, for 1 s"},
		{"no number", "3 of 90 held back"},
	} {
		if severity(c[0]) >= severity(c[1]) {
			t.Errorf("%v: %v, %v", c, severity(c[0]), severity(c[1]))
		}
	}
}
