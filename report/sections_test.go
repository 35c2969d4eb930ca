package report

import (
	"reflect"
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/servermetrics"
)

func TestRatesAndReasoningAreToldWhereThereAreSome(t *testing.T) {
	var b strings.Builder
	plain := results.StageResult{Load: results.Load{Concurrency: new(uint32(8))},
		Arrivals: &results.ArrivalTime{Rate: 3}}
	section("Rates of open loops", []results.StageResult{plain}).Markdown(&b)
	section("First text, reasoning and answers", []results.StageResult{plain}).Markdown(&b)
	section("Images", []results.StageResult{plain}).Markdown(&b)
	section("Tool calls and answers in a form", []results.StageResult{plain}).Markdown(&b)
	section("Sessions", []results.StageResult{plain}).Markdown(&b)
	section("Turns of sessions", []results.StageResult{plain}).Markdown(&b)
	if b.Len() > 0 {
		t.Errorf("nothing is to be told:\n%s", b.String())
	}
	open := results.StageResult{
		Target: "t", Workload: "w", Load: results.Load{Rate: new(8.0), Words: "8 req/s poisson"}, OutputTokens: new(uint64(400)),
		Arrivals: &results.ArrivalTime{DurationS: 25, Rate: 8, RequestThroughput: 7.9,
			OutputTokenThroughput: new(158.0)},
		RequestThroughput: new(7.1), DurationS: new(28.2),
		Reasoning: &results.Reasoning{Tokens: 100, Hidden: 10},
		Latencies: results.Latencies{TTFT: distribution(20, 19, 30), TTFTAnswer: distribution(220, 219, 230),
			ReasoningTime: distribution(200, 199, 210)},
		Images: &results.Images{Count: 8, TokensEach: 84.5},
		Parts: []results.PartResult{{Name: "plain"}, {Name: "photos", Images: &results.Images{Count: 8, TokensEach: 84.5}},
			{Name: "forms", Answers: &results.CheckedAnswers{Checked: 2, Valid: 1, ValidShare: new(0.5)}}},
		Tools: &results.ToolCalls{Requests: 9, WithCalls: 3, Calls: 4, ValidCalls: 3, ValidShare: new(0.75)},
		Sessions: &results.Sessions{Completed: 5, Broken: 1, Task: distribution(900, 800, 990),
			Turns: []results.TurnResult{
				{Completed: 4, TTFT: distribution(20, 19, 30), InputTokens: new(uint64(10)),
					PrefixCache: results.PrefixCache{SharedShare: new(0.5), CachedShare: new(0.4)}},
				{From: 16, To: 31, Completed: 2},
			}},
	}
	section("Images", []results.StageResult{plain, open}).Markdown(&b)
	section("Tool calls and answers in a form", []results.StageResult{open, {
		Target: "t", Workload: "forms", Load: open.Load, Answers: &results.CheckedAnswers{Checked: 5, Valid: 4, ValidShare: new(0.8)},
	}, {
		Target: "t", Workload: "w", Load: open.Load,
		Canaries: &results.Canaries{Load: results.CanaryAnswers{Asked: 200, Differing: 3, DifferingShare: new(0.015)}},
	}}).Markdown(&b)
	section("Sessions", []results.StageResult{open}).Markdown(&b)
	section("Turns of sessions", []results.StageResult{open}).Markdown(&b)
	section("Rates of open loops", []results.StageResult{open}).Markdown(&b)
	section("First text, reasoning and answers", []results.StageResult{open}).Markdown(&b)
	for _, row := range []string{
		"| 1: t, w, 8 req/s poisson | 8.00 | 8.00 | 7.90 | 158.00 | 25.00 | 7.10 | 28.20 |",
		"| 1: t, w, 8 req/s poisson | 20.00 / 30.00 | n/a | 220.00 / 230.00 (1) | 200.00 / 210.00 | 100 | 25.00 | 10 |",
		"| 1: t, w, 8 req/s poisson | 5 | 1 | 900.00 / 990.00 | n/a | n/a |",
		"| 1: t, w, 8 req/s poisson | 0 | 4 | 20.00 / 30.00 | n/a | 2.50 | 50.00 | 40.00 |",
		"| 1: t, w, 8 req/s poisson | 16-31 | 2 | n/a | n/a | n/a | n/a | n/a |",
		"| 1: t, w, 8 req/s poisson | 8 | 84.50 |",
		"| 1: t, w, 8 req/s poisson | 9 | 3 | 4 | 75.00 | n/a | n/a |",
		"| 1: t, w, 8 req/s poisson, part photos | 8 | 84.50 |",
		"| 1: t, w, 8 req/s poisson, part forms | n/a | n/a | n/a | n/a | 2 | 50.00 |",
		"| 1: t, forms, 8 req/s poisson | n/a | n/a | n/a | n/a | 5 | 80.00 |",
		"| 1: t, w, 8 req/s poisson, canaries | n/a | n/a | n/a | n/a | 200 | 98.50 |",
	} {
		if !strings.Contains(b.String(), row) {
			t.Errorf("no %s in\n%s", row, b.String())
		}
	}
	if strings.Contains(b.String(), "part plain") {
		t.Errorf("the part that asks for nothing has a row:\n%s", b.String())
	}
}

// A stage's GPUs are one row. What is not known of one GPU is not known of all.
func TestGPUs(t *testing.T) {
	stage := results.StageResult{Index: 2, GPUs: &servermetrics.GPUResult{
		Devices: []servermetrics.GPU{
			{Busy: new(0.9), MemoryMiB: new(40960.0), SMActive: new(0.5)},
			{Busy: new(1.0), MemoryMiB: new(81920.0)},
		},
		PowerW: new(1000.0), EnergyJ: new(60000.0), JoulesPerOutputToken: new(0.25), Notes: []string{"values are old"},
	}}
	var b strings.Builder
	section("GPUs", []results.StageResult{{Index: 1}, stage}).Markdown(&b)
	for _, want := range []string{
		"| 2 | 1000.00 | 60000.00 | 0.25 | 4 | 90.00 to 100.00 | n/a | n/a | 80.0 | n/a |", "values are old",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if s := section("GPUs", []results.StageResult{{}}); s.Title != "" {
		t.Errorf("without exporters: %+v", s)
	}
}

// The reason why a stage ended early appears in a table only once, even if several notes contain it.
func TestAReasonStandsInATableOnce(t *testing.T) {
	const why = `target bad is hopeless: its first 20 requests all failed in the same way: 401 Unauthorized: {"error":"no key"}`
	stages := []results.StageResult{
		{Load: results.Load{Words: "concurrency 1"}, Missing: []string{
			"the stage ended early: agent a: " + why, "agent a failed: " + why, "agent b failed: connection refused",
			"agent a ended early: " + why,
		}, ErrorExamples: map[string]string{"http_401": `401 Unauthorized: {"error":"no key"}`}},
		{Load: results.Load{Words: "concurrency 2"},
			Missing: []string{"the stage never started: skipped: agent a: " + why}},
	}
	stages[0].Errors = map[string]uint64{"http_401": 20}
	notes, text := &once{}, ""
	for _, s := range stages {
		text += noteOf(s, notes) + notes.example(s) + "\n"
	}
	want := "PARTIAL: the stage ended early: agent a: " + why +
		"; agent a failed; agent b failed: connection refused; agent a ended early\n" +
		"PARTIAL: the stage never started: skipped (see concurrency 1)\n"
	if text != want {
		t.Errorf("got:\n%s\nwant:\n%s", text, want)
	}
	if n := strings.Count(text, "401"); n != 1 {
		t.Errorf("the reason stands there %d times", n)
	}
}

// How answers ended is told unless the limit on tokens ended all of them.
func TestEndingsSection(t *testing.T) {
	var b strings.Builder
	section("How answers ended", []results.StageResult{{Endings: &results.Endings{Length: 9}}, {}}).Markdown(&b)
	if b.Len() != 0 {
		t.Error(b.String())
	}
	section("How answers ended", []results.StageResult{{Endings: &results.Endings{Length: 6, Filtered: 1, Unknown: 3, Aborted: 2}}}).
		Markdown(&b)
	if !strings.Contains(b.String(), "| 0 | 6 | 0 | 1 | 0 | 3 | 2 |") {
		t.Error(b.String())
	}
}

// The templates of sections fit results that have everything, and those that have nothing.
func TestSectionsFitEveryResult(t *testing.T) {
	full := &results.Result{}
	fill(reflect.ValueOf(&full.Stages).Elem(), 0)
	for _, r := range []*results.Result{full, {Stages: make([]results.StageResult, 2)}} {
		sections, err := detailsOf(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sections {
			if r == full && s.Blocks == nil && !strings.Contains(s.Title, "side by side") && s.Title != "" {
				t.Errorf("%s is empty", s.Title)
			}
		}
	}
}

// fill gives each value within v one that is not zero, and each list and map an item.
func fill(v reflect.Value, depth int) {
	const deepest = 9
	switch {
	case depth > deepest:
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth+1)
			}
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case v.Kind() == reflect.Map:
		item := reflect.New(v.Type().Elem()).Elem()
		fill(item, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("a").Convert(v.Type().Key()), item)
	case v.Kind() == reflect.String:
		v.SetString("word")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanFloat():
		v.SetFloat(2)
	case v.CanUint():
		v.SetUint(2)
	case v.CanInt():
		v.SetInt(2)
	}
}
