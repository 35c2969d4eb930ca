package page

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/histogram"
)

// stage returns a stage with a verdict.
func stage(index uint32, target string, concurrency uint32, verdict trust.Verdict) results.StageResult {
	rate := 100 * float64(index+1)
	d := &histogram.Summary{Count: 10, Mean: 7, P50: 6, P99: 9, Max: 10}
	return results.StageResult{
		Index: index, Target: target, Workload: "w", Complete: true, OutputTokenThroughput: &rate,
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
	for _, mark := range []string{"INVALID", "INCOMPLETE", "SUSPECT"} {
		if n := strings.Count(page, ", "+mark+"</title>"); n == 0 {
			t.Errorf("no point of a chart says %s", mark)
		}
	}
	if !strings.Contains(page, `class="banner invalid"`) {
		t.Error("the page does not begin with INVALID")
	}
}

func TestTheAnswerLeavesInvalidStagesOut(t *testing.T) {
	b := bestOf(input(trust.Invalid, stage(0, "t", 1, trust.Valid), stage(1, "t", 2, trust.Invalid)).Groups[0])
	if b.Most == nil || b.Most.Stage.Index != 0 || b.Knee.Stage.Index != 0 {
		t.Errorf("best: %+v", b)
	}
	page := written(t, input(trust.Invalid, stage(0, "t", 1, trust.Invalid)))
	if !strings.Contains(page, "no stage is complete and free of INVALID") {
		t.Error("the page has an answer from an INVALID stage")
	}
}

func TestTextsOfPlansAndServersAreData(t *testing.T) {
	hostile := "<script>alert(1)</script>\x1b[31m\u202e"
	s := stage(0, hostile, 1, trust.Valid)
	in := input(trust.Suspect, s, stage(1, hostile, 2, trust.Valid))
	in.Result.Run.Plan, in.Result.Run.Reason = &hostile, &hostile
	in.Result.Run.Missing, in.Remedies, in.Plan = []string{hostile}, []string{hostile}, []byte(hostile)
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
	if found := regexp.MustCompile(`(src|href)=|url\(|@import|https?://`).FindString(page); found != "" {
		t.Errorf("the page has %s", found)
	}
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	if policy == nil || !strings.HasPrefix(policy[1], "default-src &#39;none&#39;") {
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
	if charts != 6 {
		t.Errorf("%d charts, want 6", charts)
	}
}
