package sink_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/sinktest"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func field(t *testing.T, row sink.Row, key string) (sink.Field, bool) {
	t.Helper()
	i := slices.IndexFunc(row.Fields, func(f sink.Field) bool { return f.Key == key })
	if i < 0 {
		return sink.Field{}, false
	}
	return row.Fields[i], true
}

func keys(row sink.Row) []string {
	var all []string
	for _, f := range row.Fields {
		all = append(all, f.Key)
	}
	return all
}

func tags(row sink.Row) string {
	var text []string
	for _, tag := range row.Tags {
		text = append(text, tag.Key+"="+tag.Value)
	}
	return strings.Join(text, ",")
}

func TestWindowTimeIsTheStagesStartAndTheOffset(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	rows := sink.WindowPoint{StageStart: start, Window: 90, Measures: &sink.Measures{}, ToDate: &sink.Measures{}}.Rows()
	for _, row := range rows {
		if want := start.Add(90 * time.Second); !row.Time.Equal(want) {
			t.Errorf("%s: time %v, want %v", row.Measurement, row.Time, want)
		}
	}
}

func TestUnknownIsLeftOut(t *testing.T) {
	point := sink.StagePoint{
		Measures: sink.Measures{Distributions: []sink.Distribution{
			{Name: "ttft_ms", Summary: histogram.Summary{Count: 2, Mean: math.NaN(), Std: math.Inf(1), P50: 3}},
			{Name: "tpot_ms"},
		}},
		Whole: sink.Throughput{Seconds: new(math.NaN())},
	}
	want := []string{
		"complete", "ttft_ms_count", "ttft_ms_min", "ttft_ms_max", "ttft_ms_p50", "ttft_ms_p90", "ttft_ms_p95",
		"ttft_ms_p99", "ttft_ms_p99_9",
		"tpot_ms_count",
	}
	if got := keys(point.Rows()[0]); !slices.Equal(got, want) {
		t.Errorf("fields %q, want %q", got, want)
	}
}

func TestInputTokensAreUnknownWithoutUsage(t *testing.T) {
	for _, test := range []struct {
		without uint64
		known   bool
	}{{0, true}, {1, false}} {
		point := sink.StagePoint{Measures: sink.Measures{Counters: &spatev1.Counters{InputTokens: 12,
			WithoutUsage: test.without}}}
		got, known := field(t, point.Rows()[0], "input_tokens")
		if known != test.known || known && got.Int != 12 {
			t.Errorf("%d requests without usage: input_tokens %+v, known %v", test.without, got, known)
		}
	}
}

func TestTagsAreSortedAndTellScopesApart(t *testing.T) {
	scope := sinktest.Scope()
	region, agent := scope, scope
	region.Region = "eu"
	agent.Region, agent.Agent = "eu", "a1"
	common := "run=quickstart-20260329,scope="
	end := ",stage=4,target=dynamo 3P1D,workload=3000:150"
	for want, s := range map[string]sink.Scope{
		"load=concurrency 8,plan=quickstart," + common + "all" + end:                      scope,
		"load=concurrency 8,plan=quickstart,region=eu," + common + "region" + end:         region,
		"agent=a1,load=concurrency 8,plan=quickstart,region=eu," + common + "agent" + end: agent,
	} {
		if got := tags(sink.StagePoint{Scope: s}.Rows()[0]); got != want {
			t.Errorf("tags %q, want %q", got, want)
		}
	}
}

// Rows of merged windows have another measurement, so that no panel adds them to the rest.
func TestMergedWindowsAreApart(t *testing.T) {
	names := func(windows uint32) string {
		scope := sinktest.Scope()
		rows := sink.WindowPoint{Scope: scope, Window: 4, Measures: &sink.Measures{Windows: windows},
			ToDate: &sink.Measures{Windows: windows}}.Rows()
		rows = append(rows, sink.StagePoint{Scope: scope, Measures: sink.Measures{Windows: windows}}.Rows()...)
		var text []string
		for _, row := range rows {
			text = append(text, strings.TrimPrefix(row.Measurement, "spate_"))
			if n, ok := field(t, row, "windows"); ok != strings.HasSuffix(row.Measurement, "merged_windows") || ok &&
				n.Int != int64(windows) {
				t.Errorf("%s: windows %+v", row.Measurement, n)
			}
		}
		return strings.Join(text, " ")
	}
	for windows, want := range map[uint32]string{
		0: "window to_date stage", 1: "window to_date stage", 30: "merged_windows to_date stage",
	} {
		if got := names(windows); got != want {
			t.Errorf("%d windows: %q, want %q", windows, got, want)
		}
	}
}

func TestEventsOfAgents(t *testing.T) {
	info := &spatev1.AgentInfo{Name: "eu-2", Region: "eu"}
	scope := sinktest.Scope()
	run := sink.EventPoint{RunID: "r", Plan: "p", Time: time.Unix(1, 0)}
	end := ",load=concurrency 8,plan=p,region=eu,run=r,stage=4,target=dynamo 3P1D,workload=3000:150"
	for _, c := range []struct {
		e          *spatev1.AgentChanged
		kind, text string
	}{
		{&spatev1.AgentChanged{Agent: info, Reason: "silent", Consequence: "25 % is missing"}, "agent_lost",
			"silent: 25 % is missing"},
		{&spatev1.AgentChanged{Agent: info, Joined: true, Consequence: "from second 16 on"}, "agent_joined",
			"from second 16 on"},
		{&spatev1.AgentChanged{Agent: info, Reason: "silent"}, "agent_lost", "silent"},
	} {
		row := sink.AgentEvent(run, &scope, c.e).Rows()[0]
		if got, want := tags(row), "agent=eu-2,kind="+c.kind+end; got != want {
			t.Errorf("tags %q, want %q", got, want)
		}
		if got, _ := field(t, row, "text"); got.Text != c.text || !row.Time.Equal(run.Time) {
			t.Errorf("text %q at %v", got.Text, row.Time)
		}
	}
	if got := tags(sink.AgentEvent(run, nil,
		&spatev1.AgentChanged{Agent: info}).Rows()[0]); got != "agent=eu-2,kind=agent_lost,plan=p,region=eu,run=r" {
		t.Errorf("tags %q without a stage", got)
	}
}

func TestLoadPointIsANumberToo(t *testing.T) {
	closed := sink.StagePoint{Scope: sink.Scope{Concurrency: 64}}.Rows()[0]
	open := sink.StagePoint{Scope: sink.Scope{Rate: 2.5}}.Rows()[0]
	if got, ok := field(t, closed, "concurrency"); !ok || got.Int != 64 {
		t.Errorf("concurrency %+v", got)
	}
	if got, ok := field(t, open, "rate"); !ok || got.Float != 2.5 {
		t.Errorf("rate %+v", got)
	}
	if _, ok := field(t, open, "concurrency"); ok {
		t.Error("an open loop has a concurrency")
	}
	if _, ok := field(t, closed, "rate"); ok {
		t.Error("a closed loop has a rate")
	}
}

func TestEventsOfARunHaveNoStage(t *testing.T) {
	run := sink.EventPoint{RunID: "r", Plan: "p", Kind: sink.RunStarted}.Rows()[0]
	if got, want := tags(run), "kind=run_began,plan=p,run=r"; got != want {
		t.Errorf("tags %q, want %q", got, want)
	}
	if got, _ := field(t, run, "text"); got.Text != "run_began" {
		t.Errorf("text %q of an event without words", got.Text)
	}
	stage := sinktest.Event().Rows()[0]
	want := "kind=stage_began,load=concurrency 8,plan=quickstart,run=quickstart-20260329,stage=4,target=dynamo 3P1D,workload=3000:150"
	if got := tags(stage); got != want {
		t.Errorf("tags %q, want %q", got, want)
	}
}

func BenchmarkWindowRows(b *testing.B) {
	point := sinktest.Window(3)
	b.ReportAllocs()
	for b.Loop() {
		point.Rows()
	}
}
