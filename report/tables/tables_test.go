package tables

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/table"
)

var update = flag.Bool("update", false, "write the expected files again")

// all are the tables under the names of their expected files.
func all(t *testing.T, r *results.Result) map[string]*table.Table {
	targets, err := Targets(r, "")
	if err != nil {
		t.Fatal(err)
	}
	searches, err := Searches(r, "")
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*table.Table{"targets": targets, "searches": searches, "frontiers": Frontiers(r), "parts": Parts(r),
		"stages": Stages(r), "slowest": Slowest(withExamples(r)), "vllm": VLLM(r), "guidellm": GuideLLM(r),
		"aiperf": AIPerf(r)}
}

// withExamples returns the result with requests of a target whose traces have links, and of one whose have none.
func withExamples(r *results.Result) *results.Result {
	r = new(*r)
	r.Run.Records = new("parquet")
	r.Run.Targets = slices.Clone(r.Run.Targets)
	r.Run.Targets[0].TraceURL = new(`https://h/t/{trace_id}?a=(b)|"<c>`)
	r.Stages = slices.Clone(r.Stages)
	r.Stages[0].Examples = []results.Example{{Of: "p50", Index: 7, Turn: 1, Agent: "a", Endpoint: "http://e",
		TraceID: new("0af7651916cd43dd8448eb211c80319c"), OutputTokens: new(uint64(9)), HeldMs: new(2.5), SendDelayMs: 0.25,
		ConnectMs: new(1.5), ServerQueueMs: new(3.25), SentMs: new(0.5), FirstByteMs: new(8.0), TTFTMs: new(8.125),
		E2EMs: 20, Gaps: []results.Gap{{AtMs: 11, GapMs: 4}, {AtMs: 9, GapMs: 1}}}, {Of: "slowest", Agent: "b", E2EMs: 30}}
	r.Stages[1].Examples = []results.Example{{Of: "slowest", TraceID: new("1"), E2EMs: 30}}
	return r
}

// TestTables compares all tables in all formats with the files in testdata. go test ./report/tables -update writes them
// again.
func TestTables(t *testing.T) {
	for name, shown := range all(t, twoTargets()) {
		for suffix, write := range map[string]func(*bytes.Buffer) error{
			"txt":  func(b *bytes.Buffer) error { return shown.Text(b, 0) },
			"md":   func(b *bytes.Buffer) error { return shown.Markdown(b) },
			"csv":  func(b *bytes.Buffer) error { return shown.CSV(b) },
			"json": func(b *bytes.Buffer) error { return shown.JSON(b) },
		} {
			if suffix == "json" && name != "targets" {
				continue // TestFormatsAgree compares it with the CSV
			}
			var got bytes.Buffer
			if err := write(&got); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+"."+suffix)
			if *update {
				if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("%v: go test ./report/tables -update writes it", err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s (go test ./report/tables -update writes it again):\n%s", path, diff)
			}
		}
	}
}

// Programs read the same rows from CSV and JSON: as many values as keys, and no key twice.
func TestFormatsAgree(t *testing.T) {
	for name, shown := range all(t, twoTargets()) {
		var asCSV, asJSON bytes.Buffer
		if err := shown.CSV(&asCSV); err != nil {
			t.Fatal(err)
		}
		if err := shown.JSON(&asJSON); err != nil {
			t.Fatal(err)
		}
		lines, err := csv.NewReader(&asCSV).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var objects []map[string]any
		if err := json.Unmarshal(asJSON.Bytes(), &objects); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(lines) != len(objects)+1 || len(objects) == 0 {
			t.Fatalf("%s: %d lines, %d objects", name, len(lines), len(objects))
		}
		for i, o := range objects {
			if len(o) != len(lines[0]) {
				t.Errorf("%s: object %d has %d keys, the header %d", name, i, len(o), len(lines[0]))
			}
		}
	}
}

// Seed 002's table: these columns, in this order.
func TestVLLMHasThePublishedColumns(t *testing.T) {
	const published = "Backend/Setting | Successful Requests | Duration (s) | Total Input Tokens | " +
		"Total Generated Tokens | Req Throughput (req/s) | Output Token Throughput (tok/s) | " +
		"Total Token Throughput (tok/s) | Mean TTFT (ms) | Median TTFT (ms) | P99 TTFT (ms) | Mean TPOT (ms) | " +
		"Median TPOT (ms) | P99 TPOT (ms) | Mean ITL (ms) | Median ITL (ms) | P99 ITL (ms)"
	var headers []string
	for _, c := range VLLM(twoTargets()).Columns {
		if c.Header != "" {
			headers = append(headers, c.Header)
		}
	}
	if got := strings.Join(headers[1:], " | "); got != published {
		t.Error(cmp.Diff(published, got))
	}
}

// A baseline whose numbers mean nothing, or that is missing, leaves the ratios unknown.
func TestRatios(t *testing.T) {
	ratios := func(r *results.Result, baseline string) (known int) {
		shown, err := Targets(r, baseline)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range shown.Rows {
			for _, c := range row.Cells {
				if c.Ratio != nil {
					known++
				}
			}
		}
		return known
	}
	for name, c := range map[string]struct {
		change func(*results.Result)
		known  bool
	}{
		"as they are":            {func(*results.Result) {}, true},
		"an INVALID baseline":    {func(r *results.Result) { r.Stages[0].Trust.Verdict = trust.Invalid }, false},
		"an INVALID other":       {func(r *results.Result) { r.Stages[1].Trust.Verdict = trust.Invalid }, false},
		"an incomplete baseline": {func(r *results.Result) { r.Stages[0].Complete = false }, false},
		"another load":           {func(r *results.Result) { r.Stages[1].Load.Words = "rate 3" }, false},
	} {
		r := twoTargets()
		if c.change(r); (ratios(r, "") > 0) != c.known {
			t.Errorf("%s: %d ratios", name, ratios(r, ""))
		}
	}
	if ratios(twoTargets(), "fast") == 0 {
		t.Error("no ratios to the other target")
	}
	if _, err := Targets(twoTargets(), "fats"); err == nil || !strings.Contains(err.Error(), "the run has slow, fast") {
		t.Errorf("%v", err)
	}
}

// An answer of a search that is missing or INVALID has no ratio, nor has one to another question.
func TestRatiosOfSearches(t *testing.T) {
	for name, c := range map[string]struct {
		change func(all []results.SeriesResult)
		known  bool
	}{
		"as they are":        {func([]results.SeriesResult) {}, true},
		"INVALID":            {func(all []results.SeriesResult) { *all[0].Verdict = trust.Invalid }, false},
		"no answer":          {func(all []results.SeriesResult) { all[1].Limits[0] = results.LoadLimit{} }, false},
		"another objective":  {func(all []results.SeriesResult) { all[1].Objectives = []string{"p99 TTFT ≤ 1000 ms"} }, false},
		"another unit":       {func(all []results.SeriesResult) { all[1].Unit = "concurrency" }, false},
		"a stage is missing": {func(all []results.SeriesResult) { all[1].Limits[0].Stage = new(uint32(9)) }, true},
	} {
		r := twoTargets()
		c.change(r.Run.Series)
		shown, err := Searches(r, "")
		if err != nil {
			t.Fatal(err)
		}
		if highest := shown.Rows[1].Cells[6]; (highest.Ratio != nil) != c.known || c.known && *highest.Ratio != 1.5 {
			t.Errorf("%s: %+v", name, highest)
		}
	}
}

// Dollars are those of the plan's time, however much a simulation compresses it.
func TestCompressionKeepsPrices(t *testing.T) {
	r := twoTargets()
	before := Economy(r, &r.Stages[0])["dollars_per_million_output_tokens"]
	r.Run.TimeCompression = new(10.0)
	*r.Stages[0].OutputTokenThroughput *= 10
	if after := Economy(r, &r.Stages[0])["dollars_per_million_output_tokens"]; *after != *before {
		t.Errorf("%v, want %v", *after, *before)
	}
}

// A table by the definitions of another benchmark marks what is doubtful, too.
func TestDoubtfulNumbersOfOthersAreMarked(t *testing.T) {
	r := twoTargets()
	r.Stages[0].Trust = trust.Trust{Checks: []trust.Check{
		{Verdict: trust.Suspect, Touches: []string{"ttft_ms", "tpot_ms.p95", "request_throughput"}}}}
	r.Stages[0].E2E.Few = []histogram.Few{{Percentile: "p99"}}
	for name, c := range map[string]struct {
		table *table.Table
		want  string
	}{
		"vllm": {VLLM(r), "!request_throughput !mean_ttft_ms !median_ttft_ms !p99_ttft_ms"},
		"guidellm": {GuideLLM(r), "!ttft_ms_mean !ttft_ms_mdn !ttft_ms_p95 !ttfot_ms_mean !ttfot_ms_mdn !ttfot_ms_p95 " +
			"!itl_ms_p95 !requests_per_second_mean !input_tokens_per_second_mean"},
		"aiperf": {AIPerf(r), "!avg !min !max !p99 !p90 !p50 !std !avg !min !max !p99 !p90 !p50 !std *p99 !avg !avg"},
	} {
		var got []string
		for _, row := range c.table.Rows {
			for i, cell := range row.Cells {
				if cell.Mark != "" && row.Name == c.table.Rows[0].Name {
					got = append(got, cell.Mark+c.table.Columns[i].Key)
				}
			}
		}
		if strings.Join(got, " ") != c.want || len(c.table.Notes) != 1 {
			t.Errorf("%s: %q, notes %q", name, got, c.table.Notes)
		}
	}
}

// Text of plans and servers cannot leave its cell, start a formula or control a terminal.
func TestTextIsData(t *testing.T) {
	r := twoTargets()
	r.Stages[0].Workload = "a|b\x1b[31m\n<script>"
	r.Stages[0].Load.Words = "=1+1"
	var text, markdown, values bytes.Buffer
	shown := Stages(r)
	for _, err := range []error{shown.Text(&text, 0), shown.Markdown(&markdown), shown.CSV(&values)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if strings.ContainsRune(text.String(), 0x1b) || strings.Contains(markdown.String(), "<script>") ||
		!strings.Contains(values.String(), "'=1+1") {
		t.Errorf("%s\n%s\n%s", text.String(), markdown.String(), values.String())
	}
}

// A narrow terminal gets fewer columns, and is told so.
func TestNarrow(t *testing.T) {
	var b bytes.Buffer
	r := twoTargets()
	r.Stages[1].Workload = "another" // a second heading does not count its columns again
	shown := Stages(r)
	if err := shown.Text(&b, 60); err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(b.String(), "\n") {
		if len([]rune(line)) > 60 {
			t.Errorf("%d columns: %s", len([]rune(line)), line)
		}
	}
	columns := slices.DeleteFunc(slices.Clone(shown.Columns), func(c table.Column) bool { return c.Header == "" })
	var dropped int
	_, note, found := strings.Cut(b.String(), "up to ")
	if _, err := fmt.Sscan(note, &dropped); !found || err != nil || dropped < 1 || dropped >= len(columns) {
		t.Errorf("%d of %d columns: %s", dropped, len(columns), b.String())
	}
}

// twoTargets returns a run of two targets at one load. The second one's numbers are partly unknown, and doubtful.
func twoTargets() *results.Result {
	gpus, cost, tokens := uint32(8), 19.2, uint64(50_000)
	concurrency := uint32(16)
	stage := func(index uint32, target string, scale float64, verdict trust.Verdict) results.StageResult {
		d := func(p50 float64) *histogram.Summary {
			return &histogram.Summary{Mean: 1.1 * p50, Std: p50 / 10, Min: p50 / 2, Max: 3 * p50, P50: p50,
				P90: 2 * p50, P95: 2.2 * p50, P99: 2.5 * p50, P99_9: 2.9 * p50, Count: 100}
		}
		v := func(p50 float64) *results.VLLMMetric {
			return &results.VLLMMetric{Mean: 1.1 * p50, Median: p50, P99: 2.5 * p50}
		}
		lengths := func(n float64) *histogram.Summary {
			return &histogram.Summary{Mean: n, Min: n, Max: n, P50: n, P90: n, P95: n, P99: n, P99_9: n, Count: 100}
		}
		return results.StageResult{
			Index: index, Target: target, Workload: "500:100",
			Load:     results.Load{Words: "concurrency 16", Concurrency: &concurrency},
			Complete: true, Trust: trust.Trust{Verdict: verdict},
			Requests:  results.Requests{Outcomes: results.Outcomes{Started: 100, Completed: 100}},
			DurationS: new(10 * scale), InputTokens: &tokens, OutputTokens: new(uint64(10_000)),
			RequestThroughput: new(10 / scale), OutputTokenThroughput: new(1000 / scale),
			TotalTokenThroughput: new(6000 / scale),
			Latencies: results.Latencies{TTFT: d(20 * scale), TPOT: d(5 * scale), ITL: d(5 * scale),
				E2E: d(515 * scale)},
			ISL: results.SequenceLength{Seen: lengths(500)}, OSL: results.SequenceLength{Seen: lengths(100)},
			TokensPerFrame: lengths(1),
			VLLM:           results.VLLM{TTFT: v(20 * scale), TPOT: v(5 * scale), ITL: v(5 * scale)},
		}
	}
	fast := stage(1, "fast", 0.8, trust.Suspect)
	fast.InputTokens, fast.TotalTokenThroughput, fast.VLLM.ITL = nil, nil, nil
	slow := stage(0, "slow", 1, trust.Valid)
	slow.Canaries = &results.Canaries{Load: results.CanaryAnswers{DifferingShare: new(0.03), RightShare: new(0.9)}}
	slow.Parts = []results.PartResult{
		{Name: "chat", Weight: 70, Share: new(0.7), Requests: results.Outcomes{Completed: 700},
			RequestThroughput: new(7.0), OutputTokenThroughput: new(700.0), Latencies: slow.Latencies,
			Goodput: &results.Goodput{Share: new(0.5)}, Images: &results.Images{Count: 80, TokensEach: 84.5},
			Tools: &results.ToolCalls{Requests: 700, Calls: 4, ValidCalls: 3, ValidShare: new(0.75)}},
		{Name: "embeddings", Weight: 30, Share: new(0.3), Requests: results.Outcomes{Completed: 299, Failed: 1},
			RequestThroughput: new(2.99), Latencies: results.Latencies{E2E: slow.E2E}},
	}
	search := func(series uint32, target string, kept float64, verdict trust.Verdict) results.SeriesResult {
		return results.SeriesResult{Series: series, Kind: "search", Target: target, Workload: "500:100", Unit: "rate",
			Objectives: []string{"p99 TTFT ≤ 300 ms"},
			Limits:     []results.LoadLimit{{Kept: &kept, Broke: new(1.1 * kept), Stage: &series}},
			Converged:  verdict == trust.Valid, Verdict: &verdict}
	}
	return &results.Result{
		Run: results.RunResult{Targets: []results.RunTarget{
			{Name: "slow", GPUs: &gpus, CostPerHour: &cost, Baseline: true},
			{Name: "fast", Labels: map[string]string{"image": "x", "a": "b"}},
		}, Series: []results.SeriesResult{search(0, "slow", 20, trust.Valid), search(1, "fast", 30, trust.Suspect),
			{Series: 2, Kind: "frontier", Target: "slow", Workload: "500:100", Unit: "concurrency",
				Latency: "mean E2E", Knee: new(uint32(0)), HighestGoodput: new(uint32(0)),
				Limits: []results.LoadLimit{{Kept: new(8.0), Stage: new(uint32(0))},
					{Part: new("chat"), Kept: new(8.0), Stage: new(uint32(0))}},
				Points: []results.SeriesPoint{
					{Stage: 0, Load: 8, Pareto: true, RequestThroughput: new(10.0), OutputTokenThroughput: new(1000.0),
						LatencyMs: new(515.0), Goodput: new(9.5), GoodShare: new(0.95), Verdict: new(trust.Valid)},
					{Stage: 1, Load: 64, LeftOut: new("no request completed"), Verdict: new(trust.Suspect)},
				}}}},
		Stages: []results.StageResult{slow, fast},
	}
}

// The stages of searches come last, by their load, whatever the order in which they ran.
func TestProbesAreInTheOrderOfTheirLoad(t *testing.T) {
	r := &results.Result{}
	for _, rate := range []float64{8, 2, 4} {
		r.Stages = append(r.Stages, results.StageResult{Target: "t", Probe: &results.Probe{},
			Load: results.Load{Words: strings.Repeat("i", int(rate)), Rate: new(rate)}})
	}
	r.Stages = append(r.Stages, results.StageResult{Target: "t", Load: results.Load{Words: "plain", Rate: new(16.0)}})
	var got []string
	for _, group := range sameLoads(r) {
		got = append(got, group[0].Load.Words)
	}
	if want := []string{"plain", "ii", "iiii", "iiiiiiii"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Repeats of a load are one row for each target, and the percentages are without a clear drift, which a note tells. The
// numbers are those of the repeats together. Of targets that ran one after the other, the reader is told.
func TestTargetsInTurns(t *testing.T) {
	at := func(target string, repeat uint32, second int, tpot float64) results.StageResult {
		s := results.StageResult{Index: uint32(second / 10), Target: target, Workload: "w", Complete: true,
			Trust: trust.Trust{Verdict: trust.Valid}, DurationS: new(10.0), Load: results.Load{Words: "concurrency 8", Repeat: repeat}}
		if repeat > 0 {
			s.Load.Words += fmt.Sprintf(", repeat %d", repeat)
		}
		s.StartTime = new(time.Unix(int64(second), 0).UTC().Format(time.RFC3339Nano))
		s.TPOT = &histogram.Summary{Mean: tpot * math.Exp(0.002*float64(second)), P50: 1}
		return s
	}
	run := func(a, b [3]int) *results.Result {
		r := &results.Result{}
		for _, target := range []string{"A", "B"} {
			repeats := results.Repeats{Target: target, Workload: "w", Load: "concurrency 8", Verdict: trust.Valid}
			repeats.TPOT = &histogram.Summary{Mean: 99, P50: 99}
			if target == "B" { // which ran 10/3 s later on average
				repeats.TPOT.Mean *= 1.03 * math.Exp(0.002*10/3)
			}
			for i, second := range map[string][3]int{"A": a, "B": b}[target] {
				r.Stages = append(r.Stages, at(target, uint32(i), second, map[string]float64{"A": 10, "B": 10.3}[target]))
				repeats.Stages = append(repeats.Stages, r.Stages[len(r.Stages)-1].Index)
			}
			r.Repeats = append(r.Repeats, repeats)
		}
		return r
	}
	turns, err := Targets(run([3]int{0, 30, 40}, [3]int{10, 20, 50}), "")
	if err != nil || len(turns.Rows) != 2 {
		t.Fatalf("%+v, %v", turns, err)
	}
	i := slices.IndexFunc(turns.Columns, func(c table.Column) bool { return c.Key == "mean_tpot_ms" })
	b := turns.Rows[1]
	if *turns.Rows[0].Cells[i].Number != 99 || math.Abs(*b.Cells[i].Ratio-1.03) > 1e-9 || b.Cells[0].Number != nil ||
		b.Cells[2].Text != "concurrency 8, 3 repeats" {
		t.Errorf("%+v, ratio %v", b, *b.Cells[i].Ratio)
	}
	const told = "concurrency 8, 3 repeats: A and B both slowed by 0.2 %/s (mean TPOT); the percentages are without that"
	if !slices.Contains(turns.Notes, told) {
		t.Errorf("notes %q", turns.Notes)
	}
	unclear := run([3]int{0, 30, 40}, [3]int{10, 20, 50})
	unclear.Stages[1].TPOT.Mean *= 2 // so that the drift may be chance
	plain, err := Targets(unclear, "")
	if err != nil || math.Abs(*plain.Rows[1].Cells[i].Ratio-1.03*math.Exp(0.002*10/3)) > 1e-9 || len(plain.Notes) != 0 {
		t.Errorf("%+v, %v", plain, err)
	}
	after, err := Targets(run([3]int{0, 10, 20}, [3]int{30, 40, 50}), "")
	if err != nil || math.Abs(*after.Rows[1].Cells[i].Ratio-1.03*math.Exp(0.002*10/3)) > 1e-9 ||
		len(after.Notes) != 1 || !strings.HasPrefix(after.Notes[0], "The targets ran one after the other") {
		t.Errorf("%+v, %v", after, err)
	}
}
