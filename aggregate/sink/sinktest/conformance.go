package sinktest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Opened is a sink to test, and how to read what it has passed on.
type Opened struct {
	// Sink is an empty, open sink. The suite closes it.
	Sink sink.Sink
	// Rows returns all rows that arrived, once the sink is closed.
	Rows func() []sink.Row
}

// Run tests that a sink meets the contract of sink.Sink. Run calls open once for each subtest.
func Run(t *testing.T, open func(t *testing.T) Opened) {
	t.Run("everything known arrives and nothing else", func(t *testing.T) { testArrival(t, open(t)) })
	t.Run("a point given again takes the place of the first", func(t *testing.T) { testAgain(t, open(t)) })
	t.Run("callers may be many", func(t *testing.T) { testConcurrent(t, open(t)) })
	t.Run("what is given is not kept", func(t *testing.T) { testReuse(t, open(t)) })
	t.Run("odd names arrive", func(t *testing.T) { testNames(t, open(t)) })
}

func testArrival(t *testing.T, o Opened) {
	window, stage, event, agent, server := Window(3), Stage(), Event(), Agent(), Server()
	o.Sink.Put(window)
	o.Sink.Put(stage)
	o.Sink.Put(event)
	o.Sink.Put(agent)
	o.Sink.Put(server)
	finish(t, o.Sink)
	want := slices.Concat(window.Rows(), stage.Rows(), event.Rows(), agent.Rows(), server.Rows())
	Equal(t, o.Rows(), want)
}

func testAgain(t *testing.T, o Opened) {
	first, second := Window(7), Window(7)
	second.Measures.Counters.Completed = 4711
	second.Measures.Distributions[0].P99 = 1e9 / 3.0
	o.Sink.Put(first)
	o.Sink.Put(second)
	o.Sink.Put(second)
	finish(t, o.Sink)
	Equal(t, o.Rows(), second.Rows())
}

func testConcurrent(t *testing.T, o Opened) {
	const callers, each = 8, 25
	var want []sink.Row
	var group sync.WaitGroup
	for caller := range callers {
		points := make([]sink.WindowPoint, each)
		for i := range points {
			points[i] = Window(uint32(i))
			points[i].Scope.Agent = fmt.Sprintf("agent-%d", caller)
			want = append(want, points[i].Rows()...)
		}
		group.Go(func() {
			for _, point := range points {
				o.Sink.Put(point)
			}
		})
	}
	group.Wait()
	finish(t, o.Sink)
	Equal(t, o.Rows(), want)
}

func testReuse(t *testing.T, o Opened) {
	point := Window(1)
	want := point.Rows()
	o.Sink.Put(point)
	point.Measures.Counters.Completed = 1 << 40
	point.Measures.Distributions[0].Mean = -1
	clear(point.Measures.Errors)
	finish(t, o.Sink)
	Equal(t, o.Rows(), want)
}

func testNames(t *testing.T, o Opened) {
	point := Window(2)
	point.Scope.Target = `dynamo 3P1D, "disagg" = (v1)`
	point.Scope.Load = "2.5 req/s poisson"
	point.Scope.Region = "eu-west, Köln"
	event := Event()
	event.Text = `agent "a\b" is lost, = 1/3 of the load`
	server := Server()
	server.Labels = `größe="模型 | a, 'b' = c",model_name="""`
	o.Sink.Put(point)
	o.Sink.Put(event)
	o.Sink.Put(server)
	finish(t, o.Sink)
	Equal(t, o.Rows(), slices.Concat(point.Rows(), event.Rows(), server.Rows()))
}

func finish(t *testing.T, s sink.Sink) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// Equal fails the test if rows differ in any digit. The order of rows and fields does not matter.
func Equal(tb testing.TB, got, want []sink.Row) {
	tb.Helper()
	if diff := cmp.Diff(byName(tb, want), byName(tb, got)); diff != "" {
		tb.Errorf("rows differ (-want +got):\n%s", diff)
	}
}

// byName returns rows by name, with their fields sorted by key. A duplicate row fails the test. Databases that replace
// rows have one time for each row.
func byName(tb testing.TB, rows []sink.Row) map[string]sink.Row {
	tb.Helper()
	index := make(map[string]sink.Row, len(rows))
	for _, row := range rows {
		name := Name(row)
		if _, doubled := index[name]; doubled {
			tb.Errorf("row %q is there twice", name)
		}
		row.Fields = slices.SortedFunc(slices.Values(row.Fields),
			func(a, b sink.Field) int { return strings.Compare(a.Key, b.Key) })
		row.Start, row.End = time.Time{}, time.Time{}
		index[name] = row
	}
	return index
}

// begin is a stage's start, with all digits that a clock has.
var begin = time.Date(2026, 3, 29, 1, 59, 59, 123456789, time.UTC)

// Scope returns the scope of the sample points.
func Scope() sink.Scope {
	return sink.Scope{
		RunID: "quickstart-20260329", Plan: "quickstart", StageIndex: 4,
		Target: "dynamo 3P1D", Workload: "3000:150", Load: "concurrency 8", Concurrency: 8,
	}
}

// Window returns a point of which some numbers are known and others not. They differ by window.
func Window(window uint32) sink.WindowPoint {
	peak := 8 + window
	return sink.WindowPoint{
		Scope: Scope(), StageStart: begin, Window: window, PeakInFlight: &peak,
		Measures: new(measures(uint64(window))),
		ToDate:   new(measures(1000 + uint64(window))),
	}
}

// Stage returns a result of which some numbers are known and others not.
func Stage() sink.StagePoint {
	return sink.StagePoint{
		Scope: Scope(), StageStart: begin, Complete: true, Measures: measures(1 << 50), NeverSent: new(uint64(0)),
		Whole: sink.Throughput{Seconds: new(12.25), Requests: new(1.0 / 3), OutputTokens: new(20132659.0),
			TotalTokens: new(5e-324)},
		Steady: sink.Throughput{Seconds: new(10.0), Requests: new(math.NaN())},
	}
}

// Event returns an event of a stage.
func Event() sink.EventPoint {
	return sink.EventPoint{
		RunID: "quickstart-20260329", Plan: "quickstart", Time: begin, Kind: sink.StageStarted, Stage: new(Scope()),
		Text: "stage 4 began",
	}
}

// Agent returns the state of an agent, of which some is not known.
func Agent() sink.AgentPoint {
	return sink.AgentPoint{
		RunID: "quickstart-20260329", Plan: "quickstart", Agent: "eu-1", Region: "eu", Time: begin,
		SilentSeconds: new(0.25),
		Heartbeat: &spatev1.Heartbeat{InFlight: 8, CpuCores: 0.1, ClockOffsetNs: -1234567,
			ClockUncertaintyNs: 98765},
	}
}

func measures(n uint64) sink.Measures {
	x := float64(n) + 0.1
	return sink.Measures{
		Counters: &spatev1.Counters{Started: n + 1, Completed: n, Failed: 1, OutputTokens: 150 * n,
			TokensArrived: math.MaxInt64, WithoutUsage: n % 2},
		Errors: map[string]uint64{"http_429": 1, "connect": n},
		Distributions: []sink.Distribution{
			{Name: "ttft_ms", Summary: histogram.Summary{
				Count: n + 1, Mean: x / 3, Std: math.NaN(), Min: x / 7, Max: x * 7, P50: x, P90: x * 1.1,
				P95: x * 1.2, P99: x * 1.3, P99_9: 1e-9 / x,
			}},
			{Name: "tpot_ms"},
		},
	}
}

// Server returns a counter of a server, a series with labels.
func Server() sink.ServerPoint {
	window := Window(3)
	return sink.ServerPoint{
		Scope: window.Scope, StageStart: window.StageStart, Window: 3, Source: "http://one:8000/metrics",
		Metric: "vllm:prompt_tokens_total",
		Labels: `engine="0",model_name="a, b = c"`, Value: 1e9 / 3.0, PerSecond: new(0.1),
	}
}
