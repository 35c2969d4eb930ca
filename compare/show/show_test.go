package show

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/headline"
)

var update = flag.Bool("update", false, "write the expected files again")

// difference returns a tested difference.
func difference(metric, unit string, baseline, value float64, o compare.Outcome) compare.Difference {
	change := value/baseline - 1
	if unit == "" {
		change = value - baseline
	}
	return compare.Difference{Metric: metric, Unit: unit, Baseline: baseline, Value: value, Change: &change,
		Low: new(change - 0.005), High: new(change + 0.005), P: new(0.00001), PAdjusted: new(0.00002), Outcome: o,
		Detectable: new(0.02)}
}

// comparison is a comparison with everything in it, and with words that try to control a terminal or to be Markdown.
func comparison() *compare.Comparison {
	unclear := difference("ttft_ms.mean", "ms", 100, 104, compare.Unclear)
	unclear.LengthFactor = new(3.2)
	untested := compare.Difference{Metric: "ttft_ms.p99", Unit: "ms", Value: 3, Outcome: compare.Untested,
		Why: "one of the values is 0"}
	return &compare.Comparison{Tolerance: 0.01, Confidence: 0.95, Baseline: "runs/a", Sides: []compare.Against{{
		Name:     "runs/b\x1b[31m",
		Warnings: []string{"time was compressed differently: no simulation against simulation x10"},
		Stages: []compare.Stage{{
			Target: "vllm | <b>", Workload: "300:15", Load: "concurrency 8", Repeat: new(uint32(1)),
			BaselineStages: []uint32{0}, Stages: []uint32{0}, Marks: []string{"runs/b is SUSPECT: read late"},
			Requests: compare.Sameness{Same: new(false), Why: "the stages' seeds differ"}, Method: compare.Blocks,
			Metrics: []compare.Difference{difference("tpot_ms.mean", "ms", 20, 20.6, compare.Worse),
				difference("goodput.share", "", 0.90, 0.95, compare.Better), unclear, untested,
				difference("request_throughput", "req/s", 10, 10, compare.Same)},
		}},
		Answers: []compare.Answer{
			{Target: "vllm | <b>", Workload: "300:15", Kind: compare.Knee, Latency: "mean E2E", LoadUnit: "concurrency",
				BaselineRuns: []compare.Found{{Load: 16, Value: 20}}, Runs: []compare.Found{{Load: 12, Value: 25}},
				Difference: difference("knee", "req/s per s", 20, 25, compare.Unclear)},
			{Target: "vllm | <b>", Workload: "300:15", Kind: compare.HighestThroughput, LoadUnit: "rate",
				BaselineRuns: []compare.Found{{Load: 64}, {Load: 48}, {Load: 64}},
				Runs:         []compare.Found{{Load: 64}, {Load: 64}, {Load: 64}},
				Marks:        []string{"baseline: saturated: <i>"},
				Difference:   difference("highest_throughput", "req/s", 100, 90, compare.Worse)},
			{Target: "vllm | <b>", Workload: "300:15", Kind: compare.HighestLoad, Objectives: "p99 TTFT ≤ 1000 ms", Part: "chat",
				LoadUnit: "concurrency", BaselineRuns: []compare.Found{{Load: 32, Broke: new(36.0)}},
				Runs: []compare.Found{{Load: 32}}, Difference: compare.Difference{Metric: "highest_load",
					Unit: "in flight", Baseline: 32, Value: 32, Change: new(0.0), Outcome: compare.Untested,
					Why: "one run each does not show it"}},
		},
		Refused:   []compare.Left{{Stage: "vllm, 300:15, concurrency 64", Why: "runs/b: INVALID: late"}},
		Unmatched: []compare.Left{{Stage: "vllm, 300:15, concurrency 128", Why: "only in runs/a"}},
	}}}
}

// beside is a comparison of three runs and a file of another tool.
func beside() *compare.Comparison {
	stage := func(load string, metrics ...compare.Difference) compare.Stage {
		return compare.Stage{Workload: "300:15", Load: load, BaselineStages: []uint32{0}, Stages: []uint32{0}, Metrics: metrics}
	}
	untested := compare.Difference{Metric: "ttft_ms.p99", Unit: "ms", Baseline: 900, Value: 1200, Change: new(1.0 / 3), Outcome: compare.Untested,
		Why: "there are too few requests"}
	fast := stage("concurrency 8", difference("request_throughput", "req/s", 10, 11.2, compare.Better),
		difference("output_token_throughput", "tok/s", 1000, 1120, compare.Better), difference("output_tokens_per_gpu", "tok/s per GPU", 500, 560, compare.Better),
		difference("goodput.share", "", 0.9, 0.95, compare.Better), difference("ttft_ms.mean", "ms", 100, 104, compare.Unclear), untested,
		difference("tpot_ms.mean", "ms", 20, 18, compare.Better), difference("e2e_ms.mean", "ms", 400, 390, compare.Better))
	slow := stage("concurrency 8", difference("request_throughput", "req/s", 10, 8, compare.Worse),
		difference("output_token_throughput", "tok/s", 1000, 800, compare.Worse), difference("ttft_ms.mean", "ms", 100, 100, compare.Same))
	slow.Marks = []string{"slow is SUSPECT: read late <i>"}
	file := stage("concurrency 8", compare.Difference{Metric: "output_token_throughput", Unit: "tok/s", Baseline: 1000, Value: 990, Change: new(-0.01),
		Outcome: compare.Untested, Why: "there are no request rows to tell chance from"},
		compare.Difference{Metric: "ttft_ms.mean", Unit: "ms", Baseline: 98, Value: 99, Change: new(0.0102), Outcome: compare.Untested})
	second := stage("concurrency 16", difference("output_token_throughput", "tok/s", 1500, 1800, compare.Better))
	return &compare.Comparison{Tolerance: 0.01, Confidence: 0.95, Baseline: "base",
		Several: true,
		Sides: []compare.Against{{Name: "fast <b>", Stages: []compare.Stage{fast, second}}, {Name: "slow", Stages: []compare.Stage{slow},
			Unmatched: []compare.Left{{Stage: "300:15, concurrency 16", Why: "only in base"}}},
			{Name: "vllm.json", Tool: "vLLM", Warnings: []string{"it times each chunk"}, Stages: []compare.Stage{file}}}}
}

// The page of several runs has one banner, a row for each run and load, and no word of a plan as markup.
func TestPageOfSeveralRuns(t *testing.T) {
	var b strings.Builder
	if err := Write(&b, beside(), "html", 0, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<h2 id="verdict">BETTER</h2>`, "fast &lt;b&gt; is the best of 3 runs", "300:15, concurrency 16: throughput",
		`<th scope="row">base, by vLLM</th>`, `<td class="better">1,120  &#43;12.0 % B <small> (&#43;11.5 to &#43;12.5)`, "too few requests"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if n := strings.Count(b.String(), `class="banner`); n != 1 || strings.Contains(b.String(), "<b>") || strings.Contains(b.String(), "<i>") {
		t.Errorf("%d banners, or markup of a plan", n)
	}
}

// The formats for people are those of testdata.
func TestFormats(t *testing.T) {
	for _, c := range []struct {
		file, format string
		width        int
		all          bool
	}{{"text.txt", "text", 100, false}, {"all.txt", "text", 0, true}, {"table.md", "markdown", 0, false},
		{"all.md", "markdown", 0, true}, {"several-80.txt", "text", 80, false}, {"several-200.txt", "text", 200, false},
		{"several.md", "markdown", 0, false}, {"several-all.txt", "text", 120, true}} {
		var b strings.Builder
		of := comparison()
		if strings.HasPrefix(c.file, "several") {
			of = beside()
		}
		if err := Write(&b, of, c.format, c.width, c.all); err != nil {
			t.Fatal(err)
		}
		path := "testdata/" + c.file
		if *update {
			if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if b.String() != string(want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.file, b.String(), want)
		}
		if strings.ContainsRune(b.String(), '\x1b') {
			t.Errorf("%s holds a control character", c.file)
		}
	}
}

// JSON has every field, and null for what is not known.
func TestJSON(t *testing.T) {
	var b strings.Builder
	if err := Write(&b, comparison(), "json", 0, false); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Sides []struct {
			Stages []struct {
				Metrics []map[string]any `json:"metrics"`
			} `json:"stages"`
		} `json:"sides"`
	}
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatal(err)
	}
	untested := got.Sides[0].Stages[0].Metrics[3]
	for _, field := range []string{"change", "low", "high", "p", "p_adjusted", "detectable", "length_factor"} {
		if v, is := untested[field]; !is || v != nil {
			t.Errorf("%s of an untested metric is %v (%v), want null", field, v, is)
		}
	}
}

// The page has the verdict, the curves of both sides, and no word of a plan as markup.
func TestPage(t *testing.T) {
	c := comparison()
	stages := &c.Sides[0].Stages
	(*stages)[0].Metrics = append((*stages)[0].Metrics,
		difference("output_token_throughput", "tok/s", 1000, 990, compare.Same))
	*stages = append(*stages, (*stages)[0])
	var b strings.Builder
	if err := Write(&b, c, "html", 0, false); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{`<h2 id="verdict-0">MIXED</h2>`, `vllm | &lt;b&gt;`, "&#43;3.00 % W", "<svg ", `class="k1"`,
		"Not compared:", "No counterpart:", "one of the values is 0", "saturated: &lt;i&gt;", "48 to 64 req/s",
		"none too high", "-10.00 % W"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	for _, unwanted := range []string{"<b>", "\x1b", "<script", "http://", "https://"} {
		if strings.Contains(page, unwanted) {
			t.Errorf("%q is in the page", unwanted)
		}
	}
}

// A thousand stages with one answer share a line, and nothing compared is not proof.
func TestSameRequestsInShort(t *testing.T) {
	a := &compare.Against{}
	if lines := requests(a); !strings.HasPrefix(lines[0], "n/a") {
		t.Errorf("no stage: %q", lines)
	}
	a.Stages = make([]compare.Stage, 1000)
	for i := range a.Stages {
		a.Stages[i].Load, a.Stages[i].Requests.Why = "rate 1", "no request rows"
	}
	a.Stages[7].Requests = compare.Sameness{Same: new(false), Why: "seeds"}
	want := []string{"proved for 0 of 1000 stages", "rate 1 and 998 more: not known: no request rows", "rate 1: no: seeds"}
	if lines := requests(a); !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
}

// A page whose numbers were not tested, or that lacks stages of the baseline, does not say that nothing is worse.
func TestBannerOfNothingTested(t *testing.T) {
	untested := compare.Difference{Outcome: compare.Untested}
	same := compare.Difference{Outcome: compare.Same}
	for want, d := range map[string]compare.Difference{"suspect": untested, "valid": same} {
		c := &compare.Against{Stages: []compare.Stage{{Metrics: []compare.Difference{d}}}}
		if got := class(headline.Verdict(c), c.Gaps()); got != want {
			t.Errorf("%s: %s, want %s", d.Outcome, got, want)
		}
	}
}

// The advice is never to make stages hundreds of times as long.
func TestAdvice(t *testing.T) {
	for factor, want := range map[float64]string{1: "Stages 1.1 times", 3.24: "Stages 3.2 times", 495: "hardly beyond it"} {
		a := &compare.Against{Stages: []compare.Stage{{Metrics: []compare.Difference{{LengthFactor: &factor}}}}}
		if got := advice(a); !strings.Contains(got, want) {
			t.Errorf("%v: %s", factor, got)
		}
	}
}

// Words cannot turn the direction of the text after them.
func TestCleanDirection(t *testing.T) {
	if got := words.Printable("a\u202eb\x1b"); got != "a b " {
		t.Errorf("%q", got)
	}
}
