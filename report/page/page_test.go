package page

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/table"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/report/headline"
)

// stage returns a stage with a verdict.
func stage(index uint32, target string, concurrency uint32, verdict trust.Verdict) results.StageResult {
	rate := 100 * float64(index+1)
	d := &histogram.Summary{Count: 10, Mean: 7, P50: 6, P95: 8.25, P99: 9, Max: 10}
	return results.StageResult{
		Index: index, Target: target, Workload: "w", Complete: true, Stream: true, OutputTokenThroughput: &rate,
		Load:      results.Load{Words: "concurrency 8", Concurrency: &concurrency},
		Trust:     trust.Trust{Verdict: verdict},
		Latencies: results.Latencies{TTFT: d, TPOT: d, ITL: d, E2E: d},
	}
}

// input returns a run with stages of one group.
func input(verdict trust.Verdict, stages ...results.StageResult) Input {
	in := Input{Result: &results.Result{Run: results.RunResult{ID: "r", Verdict: &verdict, Complete: true},
		Stages: stages}, Plan: []byte("name: p\n")}
	g := Group{Title: "table", LoadHeader: "Concurrency"}
	for _, s := range stages {
		g.Rows = append(g.Rows, Row{Stage: s, Load: "8", Value: float64(*s.Load.Concurrency)})
	}
	in.Groups = []Group{g}
	return in
}

// written returns the page of a run.
func written(t *testing.T, in Input) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, in); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDoubtfulStagesAreNeverShownWithoutTheirMark(t *testing.T) {
	bad := stage(0, "t", 1, trust.Invalid)
	cut := stage(1, "t", 2, trust.Valid)
	cut.Complete = false
	page := written(t, input(trust.Invalid, bad, cut, stage(2, "t", 3, trust.Suspect)))
	for _, row := range regexp.MustCompile(`(?s)<tr class=.*?</tr>`).FindAllString(page, -1) {
		if !strings.Contains(row, `class="mark"`) {
			t.Errorf("a row has no mark: %s", row)
		}
	}
	for _, mark := range []string{"INVALID", "PARTIAL", "SUSPECT"} {
		if n := strings.Count(page, ", "+mark+"</title>"); n == 0 {
			t.Errorf("no point of a chart says %s", mark)
		}
	}
	if !strings.Contains(page, `class="banner invalid"`) {
		t.Error("the page does not begin with INVALID")
	}
}

// The answer comes first, in its own words, with its doubt and where the reasons are.
func TestTheAnswerComesFirst(t *testing.T) {
	in := input(trust.Suspect, stage(0, "t", 1, trust.Suspect))
	in.Result.Headline = &results.Headline{Sentences: []string{"t carries <1>.", "More."}, Doubt: new("few.")}
	in.Overview = table.New(table.Words("Workload"), table.Numbers("t"))
	in.Overview.Add("w", "1,234 at concurrency 1")
	in.Details = []table.Section{table.NewSection("Trust", table.Text("Why."))}
	page := written(t, in)
	at := 0
	for _, want := range []string{`<strong>t</strong>`, `<p class="headline">t carries &lt;1&gt;.</p>`, "<p>More.</p>", ">SUSPECT</span> few. ",
		`<a href="#section-trust">`, "1,234 at concurrency 1", `<a href="#workload-1">w</a>`, `id="workload-1"`, `id="section-trust"`} {
		found := strings.Index(page[at:], want)
		if found < 0 {
			t.Fatalf("no %s after byte %d", want, at)
		}
		at += found
	}
}

func TestTextsOfPlansAndServersAreData(t *testing.T) {
	hostile := "<script>alert(1)</script>\x1b[31m\u202e"
	s := stage(0, hostile, 1, trust.Valid)
	in := input(trust.Suspect, s, stage(1, hostile, 2, trust.Valid))
	in.Result.Run.Plan, in.Result.Run.Reason = &hostile, &hostile
	in.Result.Run.Missing, in.Plan = []string{hostile}, []byte(hostile)
	in.Result.Headline = &results.Headline{Sentences: []string{hostile}}
	in.Groups[0].Title, in.Groups[0].Rows[0].Note = hostile, hostile
	in.Groups[0].Conclusions = []string{hostile}
	page := written(t, in)
	if n := strings.Count(page, "<script>"); n != 1 {
		t.Errorf("%d scripts", n)
	}
	if strings.ContainsAny(page, "\x1b\u202e") {
		t.Error("control characters are on the page")
	}
}

// Every src, href and url() would be a request, which a self-contained page must not make.
func TestThePageNeedsNoNetwork(t *testing.T) {
	page := written(t, input(trust.Valid, stage(0, "t", 1, trust.Valid), stage(1, "u", 2, trust.Valid)))
	if found := regexp.MustCompile(`src=|href="[^#]|url\(|@import|https?://`).FindString(page); found != "" {
		t.Errorf("the page has %s", found)
	}
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	if len(policy) < 2 || !strings.HasPrefix(policy[1], "default-src &#39;none&#39;") {
		t.Errorf("policy: %q", policy)
	}
}

// Every chart has a name and a description for those who cannot see it.
func TestChartsHaveNames(t *testing.T) {
	page := written(t, input(trust.Valid, stage(0, "t", 1, trust.Valid), stage(1, "t", 2, trust.Valid)))
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	charts := 0
	for n := range doc.Descendants() {
		if n.Data != "svg" {
			continue
		}
		attributes := map[string]string{}
		for _, a := range n.Attr {
			attributes[a.Key] = a.Val
		}
		if attributes["aria-hidden"] == "true" {
			continue
		}
		charts++
		if attributes["role"] != "img" || attributes["aria-label"] == "" || n.FirstChild.Data != "desc" {
			t.Errorf("a chart without name or description: %v", attributes)
		}
	}
	if charts != 5 {
		t.Errorf("%d charts, want 5", charts)
	}
}

// A table has columns for TTFT and TPOT if answers of one of its stages are streams.
func TestOnlyStreamsHaveTTFT(t *testing.T) {
	in := input(trust.Valid, stage(0, "t", 1, trust.Valid), stage(1, "t", 2, trust.Valid))
	for stages, columns := range []int{6, 10, 10} { // stages with streams
		for i := range in.Groups[0].Rows {
			in.Groups[0].Rows[i].Stage.Stream = i < stages
		}
		_, table, _ := strings.Cut(written(t, in), "<h3>table</h3>")
		table, _, _ = strings.Cut(table, "</table>")
		for _, row := range strings.SplitAfter(table, "</tr>")[:3] {
			if n := strings.Count(row, "</th>") + strings.Count(row, "</td>"); n != columns {
				t.Errorf("%d stages with streams: %d columns, want %d: %s", stages, n, columns, row)
			}
		}
		if strings.Contains(table, "TTFT") != (stages > 0) || strings.Contains(table, "TPOT") != (stages > 0) {
			t.Errorf("%d stages with streams: %s", stages, table)
		}
	}
}

// A table of answers in one piece has columns for output tokens and texts if those of one of its stages are known.
func TestTablesWithoutTokensHaveNoColumnForThem(t *testing.T) {
	in := input(trust.Valid, stage(0, "t", 1, trust.Valid), stage(1, "t", 2, trust.Valid))
	for i := range in.Groups[0].Rows {
		in.Groups[0].Rows[i].Stage.Stream = false
	}
	for unknown, columns := range []int{6, 6, 5, 6} { // stages whose tokens are not known; then texts of one are
		if unknown > 2 {
			in.Groups[0].Rows[1].Stage.TextThroughput = new(2.5)
		} else if unknown > 0 {
			in.Groups[0].Rows[unknown-1].Stage.OutputTokenThroughput = nil
		}
		_, table, _ := strings.Cut(written(t, in), "<h3>table</h3>")
		table, _, _ = strings.Cut(table, "</table>")
		for _, row := range strings.SplitAfter(table, "</tr>")[:3] {
			if n := strings.Count(row, "</th>") + strings.Count(row, "</td>"); n != columns {
				t.Errorf("%d stages without tokens: %d columns, want %d: %s", unknown, n, columns, row)
			}
		}
	}
}

// Answers in one piece have charts and percentiles of E2E, and none of what only streams have. A stream without values
// has n/a.
func TestWholeAnswersHaveOnlyE2E(t *testing.T) {
	for _, stream := range []bool{false, true} {
		stages := []results.StageResult{stage(0, "t", 1, trust.Valid), stage(1, "t", 2, trust.Valid)}
		for i := range stages {
			s := &stages[i]
			s.Stream, s.OutputTokenThroughput, s.TTFT, s.TPOT, s.ITL = stream, nil, nil, nil, nil
		}
		in := input(trust.Valid, stages...)
		for i := range in.Groups[0].Rows {
			r := NewRecording()
			r.curves = [][]quantile{nil, nil, nil, {{1, 0}, {2, 100}}}
			r.seconds = []results.Second{{InFlight: 1}}
			in.Groups[0].Rows[i].Recording = r
			in.Recordings = append(in.Recordings, r)
		}
		page := written(t, in)
		var captions []string
		for _, c := range regexp.MustCompile("<figcaption>([^<]*) <").FindAllStringSubmatch(page, -1) {
			captions = append(captions, c[1])
		}
		want := []string{"E2E by load", "Distribution of E2E", "Requests in flight", "Failed requests",
			"Agents that measured"}
		if !slices.Equal(captions, want) {
			t.Errorf("streams: %v: charts %q, want %q", stream, captions, want)
		}
		if !strings.Contains(page, "solid: median, dashed: p99 (of few: dots)") {
			t.Error("the chart has no legend")
		}
		_, table, _ := strings.Cut(page, "Percentiles in ms")
		table, _, _ = strings.Cut(table, "</table>")
		rows := map[bool]int{false: 2, true: 8}[stream]
		if n := strings.Count(table, "<tr class"); n != rows || strings.Count(table, "<td>E2E</td>") != 2 {
			t.Errorf("streams: %v: %d rows of percentiles, want %d:\n%s", stream, n, rows, table)
		}
	}
}

// answersOf returns the charts of a page's workloads that answer.
func answersOf(t *testing.T, in Input) string {
	_, charts, _ := strings.Cut(written(t, in), `<h2 id="workload-1">`)
	charts, _, _ = strings.Cut(charts, `class="appendix"`)
	return charts
}

// What a user gets is drawn against what all get: each target in the order of its loads, per GPU if those of all are
// known, with the SLO as a line and what a frontier found at its points.
func TestTokensOfAUser(t *testing.T) {
	in := input(trust.Valid, stage(0, "t", 4, trust.Valid), stage(1, "t", 1, trust.Valid))
	in.Groups = append(in.Groups, input(trust.Valid, stage(2, "u", 1, trust.Valid), stage(3, "u", 2, trust.Invalid)).Groups...)
	for i := range in.Groups {
		for j := range in.Groups[i].Rows {
			r := &in.Groups[i].Rows[j]
			r.Load, r.Stage.Load.Words = fmt.Sprint(r.Value), fmt.Sprintf("concurrency %v", r.Value)
			r.Stage.Requests.Completed = 40
			r.Stage.Goodput = &results.Goodput{TPOTMs: new(20.0)}
		}
	}
	in.Groups[0].Series = []results.SeriesResult{{Knee: new(uint32(0)), HighestGoodput: new(uint32(1))}}
	in.Result.Run.Targets = []results.RunTarget{{Name: "t", GPUs: new(uint32(8))}, {Name: "u"}}
	charts := answersOf(t, in)
	for _, want := range []string{">output tok/s of the target; numbers at points: load<", ">4, knee<", ">1, most good<", ">1<", ">2<",
		">SLO: TPOT ≤ 20 ms<", ">t</text>", ">u</text>",
		"concurrency 4: 142.86 tok/s of a user, 100.00 output tok/s of the target, 40 requests"} {
		if !strings.Contains(charts, want) {
			t.Errorf("no %s in %s", want, charts)
		}
	}
	limit := strings.Contains(charts, ` data-limit="TPOT inverse 0 `)
	if n := strings.Count(charts, ` data-p95="8.25 8.25 8.25 ">`); n != 3 || !limit {
		t.Errorf("%d points have what a typed SLO needs, want the 3 that count", n)
	}
	if first, second := strings.Index(charts, "concurrency 1: "), strings.Index(charts, "concurrency 4: "); first > second {
		t.Error("the loads are not in their order")
	}
	in.Result.Run.Targets[1].GPUs = new(uint32(2))
	charts = answersOf(t, in)
	for _, want := range []string{">output tok/s per GPU; numbers at points: load<", ", 12.50 output tok/s per GPU, 40 requests"} {
		if !strings.Contains(charts, want) {
			t.Errorf("with GPUs no %s in %s", want, charts)
		}
	}
}

// By how much a target differs from the baseline is drawn by load, with the interval where there is one.
func TestChangesByLoad(t *testing.T) {
	in := input(trust.Valid, stage(0, "t", 1, trust.Valid), stage(1, "t", 2, trust.Valid))
	in.Groups = append(in.Groups, input(trust.Valid, stage(2, "u", 1, trust.Valid), stage(3, "u", 2, trust.Valid)).Groups...)
	in.Changes = &compare.Comparison{Baseline: "t", Sides: []compare.Against{{Name: "u"}}}
	for i := range uint32(2) {
		d := compare.Difference{Metric: "output_token_throughput", Change: new(0.25), Outcome: compare.Untested, Why: "too short"}
		if i == 1 {
			d = compare.Difference{Metric: d.Metric, Change: new(-0.5), Low: new(-0.6), High: new(-0.4),
				Outcome: compare.Worse}
		}
		in.Changes.Sides[0].Stages = append(in.Changes.Sides[0].Stages, compare.Stage{BaselineStages: []uint32{i},
			Stages: []uint32{2 + i}, Metrics: []compare.Difference{d}})
	}
	charts := answersOf(t, in)
	for _, want := range []string{"Change of output tok/s against t <small>", ">as t<", ": +25 %, untested, too short</title>",
		": -50 % (-60 to -40 %), worse</title>"} {
		if !strings.Contains(charts, want) {
			t.Errorf("no %s in %s", want, charts)
		}
	}
}

// After a run the page says how to go on.
func TestNextCommand(t *testing.T) {
	in := input(trust.Valid, stage(0, "t", 1, trust.Valid))
	for want, h := range map[string]results.Headline{
		"there, spate run plan.yaml --set loads[0].repeats=3 repeats": {Kind: headline.Targets, Verdict: new(headline.Unclear)},
		"spate compare --by target . has":                             {Kind: headline.Targets, Verdict: new(headline.Better)},
		"spate run plan.yaml --gate . shows":                          {Kind: headline.Target},
	} {
		in.Result.Headline = &h
		if !strings.Contains(written(t, in), want) {
			t.Errorf("%s: no %s", h.Kind, want)
		}
	}
	if in.Result.Run.Complete = false; !strings.Contains(written(t, in), "run it again</dd>") {
		t.Error("an incomplete run is not to be run again")
	}
}

// A single load is a point, and one of answers in one piece has their time.
func TestOneLoadIsDrawn(t *testing.T) {
	s := stage(0, "t", 1, trust.Valid)
	if charts := answersOf(t, input(trust.Valid, s)); strings.Count(charts, `<g class="p" `) != 1 {
		t.Errorf("not one point: %s", charts)
	}
	s.TPOT, s.TTFT, s.OutputTokenThroughput, s.RequestThroughput, s.Requests.Completed = nil, nil, nil, new(5.0), 3
	if charts := answersOf(t, input(trust.Valid, s)); !strings.Contains(charts, ": 6.00 ms, 5.00 req/s of the target") {
		t.Errorf("no time of an answer: %s", charts)
	}
}

// The details are the sections that have something to say, with every text as it is.
func TestDetails(t *testing.T) {
	in := input(trust.Valid, stage(0, "t", 1, trust.Valid))
	in.Details = []table.Section{
		table.NewSection("Start"),
		table.NewSection("Errors", table.Text("Words."), table.Texts([]string{"Stage", "Requests", "Message"},
			[][]string{{"1", "3", "an &lt; | of a <b>server</b>"}}), table.List([]string{"one", "two"}),
			table.Block{Note: "note"}, table.Block{Heading: "Part"}),
	}
	page := written(t, in)
	_, page, _ = strings.Cut(page, `id="details"`)
	page, _, _ = strings.Cut(page, "</section>")
	for _, want := range []string{
		`<details><summary>Errors</summary>`, "<p>Words.</p>", "<li>one</li><li>two</li>",
		`<p class="note">note</p>`, "<h3>Part</h3>", `<th scope="col">Requests</th><th scope="col" class="words">Message</th>`,
		`<th scope="row">1</th><td>3</td><td class="words">an &amp;lt; | of a &lt;b&gt;server&lt;/b&gt;</td>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	if strings.Contains(page, "Start") {
		t.Error("an empty section is shown")
	}
}

// Long tables are cut, and the page says where the rest is.
func TestLongTables(t *testing.T) {
	rows := slices.Repeat([][]string{{"1"}}, mostRows+7)
	in := input(trust.Valid, stage(0, "t", 1, trust.Valid))
	in.Details = []table.Section{table.NewSection("Long", table.Texts([]string{"Stage"}, rows), table.Text("after"))}
	page := written(t, in)
	if n := strings.Count(page, `<tr><th scope="row">1</th></tr>`); n != mostRows ||
		!strings.Contains(page, "<p>Rows 1001 to 1007 are in report.md.</p>\n<p>after</p>") {
		t.Errorf("%d rows", n)
	}
	if len(in.Details[0].Blocks[0].Table.Rows) != len(rows) {
		t.Error("the report's own table was cut")
	}
}

// Thresholds stand between the answer and the workloads, not among the details.
func TestThresholdsComeEarly(t *testing.T) {
	in := input(trust.Valid, stage(0, "t", 1, trust.Valid))
	in.Thresholds = table.NewSection("Thresholds", table.List([]string{"ttft_ms.p99 < 500"}))
	page := written(t, in)
	at := strings.Index(page, "<li>ttft_ms.p99 &lt; 500</li>")
	if at < strings.Index(page, `id="answer"`) || at > strings.Index(page, `id="workload-1"`) || strings.Count(page, "ttft_ms") != 1 {
		t.Error("the threshold is not once after the answer:\n" + page)
	}
}

const gapMetric = spatev1.Metric_METRIC_ITL

// encoded returns values as a snapshot has them.
func encoded(t testing.TB, ns ...int64) histogram.Encoded {
	t.Helper()
	h := histogram.New(histogram.LayoutOf(gapMetric))
	for _, v := range ns {
		h.Record(v)
	}
	e, err := histogram.Check(h.Proto(gapMetric))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Each second has the mean and the longest of its TTFTs and of its gaps between tokens.
func TestWaitsBySecond(t *testing.T) {
	r := NewRecording()
	for range 2 { // two agents
		r.Watch(7, gapMetric, encoded(t, 5e6, 200e6))
	}
	r.Watch(7, spatev1.Metric_METRIC_E2E, encoded(t, 9e9))
	got := r.values(&results.Second{Window: 7})[2:6]
	if got[0] != -1 || got[1] != -1 || math.Abs(got[2]-102.5) > 1 || math.Abs(got[3]-200) > 1 {
		t.Errorf("%v", got)
	}
}

// Joined seconds keep the highest one: a burst of errors in ten hours stays visible.
func TestTimelineKeepsTheHighestSecond(t *testing.T) {
	r := NewRecording()
	tokens := uint64(7)
	for w := range uint32(36_000) {
		s := results.Second{Window: w, InFlight: 1, Tokens: &tokens}
		if w == 20_001 {
			s.Failed, s.InFlight = 9, 5
		}
		r.seconds = append(r.seconds, s)
	}
	in := Input{Result: &results.Result{Stages: []results.StageResult{{}}}, Recordings: []*Recording{r}}
	over := timelineOf(&in)
	if n := len(over.Columns); n != 720 || over.End != 36_000 {
		t.Errorf("%d columns until %v", n, over.End)
	}
	highest := make(map[string]float64)
	for _, f := range over.Figures {
		for _, p := range slices.Concat(f.Series[0].Lines...) {
			highest[f.Caption] = max(highest[f.Caption], p.Y)
		}
	}
	want := map[string]float64{"Output tokens": 7, "Requests in flight": 5, "Failed requests": 9, "Agents that measured": 0}
	if !maps.Equal(highest, want) {
		t.Errorf("%v, want %v", highest, want)
	}
}

// The seconds of a stage are drawn within it, also if it began between two seconds of the run.
func TestSecondsAreDrawnWithinTheirStage(t *testing.T) {
	r := NewRecording()
	r.stageStart, r.seconds = 8.75, []results.Second{{}, {Window: 1}}
	if got := columnsOf(r, 0, 1); len(got) != 2 || got[0].X != 9.25 || got[1].X != 10.25 {
		t.Errorf("%+v", got)
	}
}

// large returns a run of many stages of a number of windows.
func large(t testing.TB, stages, windows int) Input {
	in := Input{Result: &results.Result{Run: results.RunResult{ID: "r", Complete: true, Records: new("parquet")}}}
	for i := range 5 {
		in.Result.Run.Targets = append(in.Result.Run.Targets, results.RunTarget{Name: fmt.Sprint("target ", i),
			TraceURL: new("https://jaeger.example/trace/{trace_id}")})
	}
	values := encoded(t, 5e6, 6e6, 7e6, 9e6, 20e6, 60e6)
	curve := []quantile{}
	for i, p := range percentiles {
		curve = append(curve, quantile{5 + float64(i)*1.37, p})
	}
	for i := range stages {
		s := stage(uint32(i), fmt.Sprintf("target %d", i/8%5), 1<<(i%8), trust.Valid)
		s.Workload = fmt.Sprint("workload ", i/40)
		for j, of := range []string{"p50", "p99", "slowest", "slowest", "slowest", "slowest", "slowest"} {
			s.Examples = append(s.Examples, results.Example{Of: of, Index: uint64(1000*i + j), Agent: "agent-1", Endpoint: "http://10.0.0.5:8000",
				TraceID: new(fmt.Sprintf("%032x", i)), SentMs: new(0.1), FirstByteMs: new(90.1), TTFTMs: new(90.25), E2EMs: 870.5,
				Gaps: []results.Gap{{AtMs: 100, GapMs: 50}, {AtMs: 200, GapMs: 60}, {AtMs: 300, GapMs: 70}}})
		}
		r := NewRecording()
		r.stageStart = float64(i * windows)
		tokens := uint64(0)
		for w := range windows {
			r.Watch(uint32(w), gapMetric, values)
			tokens += 13
			r.seconds = append(r.seconds, results.Second{Window: uint32(w), InFlight: uint64(w % 64), Tokens: &tokens})
		}
		r.curves = [][]quantile{curve, curve, curve, curve}
		in.Result.Stages, in.Recordings = append(in.Result.Stages, s), append(in.Recordings, r)
		if i%8 == 0 {
			in.Groups = append(in.Groups, Group{Title: fmt.Sprint(s.Target, s.Workload), LoadHeader: "Concurrency"})
		}
		g := &in.Groups[len(in.Groups)-1]
		g.Rows = append(g.Rows, Row{Stage: s, Load: fmt.Sprint(1 << (i % 8)), Value: float64(int(1) << (i % 8)),
			Recording: r})
	}
	return in
}

func TestLargeRunsMakeSmallPages(t *testing.T) {
	for name, in := range map[string]Input{"1,000 stages": large(t, 1000, 60), "10 hours": large(t, 1, 36_000),
		"160 stages": large(t, 160, 60)} {
		if n := len(written(t, in)); n > 5_000_000 || len(in.Recordings) <= 160 && n > 2_000_000 {
			t.Errorf("%s: %d bytes", name, n)
		} else {
			t.Logf("%s: %d bytes", name, n)
		}
	}
}

func BenchmarkPage(b *testing.B) {
	for _, stages := range []int{160, 1000} {
		b.Run(fmt.Sprint(stages), func(b *testing.B) {
			in := large(b, stages, 60)
			for b.Loop() {
				if err := Write(io.Discard, in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestQualityByLoad: a run with canaries shows beside its latencies how many answers are right.
func TestQualityByLoad(t *testing.T) {
	quiet, loaded := stage(0, "t", 1, trust.Valid), stage(1, "t", 2, trust.Valid)
	quiet.Canaries = &results.Canaries{Load: results.CanaryAnswers{Asked: 200, Tasks: 60, Right: 60}}
	loaded.Canaries = &results.Canaries{Load: results.CanaryAnswers{Asked: 400, Differing: 24, Tasks: 120, Right: 90}}
	page := written(t, input(trust.Valid, quiet, loaded))
	for _, want := range []string{"Quality by load", "200 of 200 canaries answered as when quiet", "376 of 400 canaries",
		"60 of 60 tasks answered right", "90 of 120 tasks"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(written(t, input(trust.Valid, stage(0, "t", 1, trust.Valid), stage(1, "t", 2, trust.Valid))),
		"Quality by load") {
		t.Error("there is a chart of canaries without any")
	}
}
