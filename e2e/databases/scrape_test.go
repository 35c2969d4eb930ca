package databases

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/process"
	"github.com/spate-load/spate/internal/servertest"
)

// bucketWidth bounds how far a quantile of a native histogram is from results.json: 2^(1/256) - 1 is 0.271 %.
const bucketWidth = 0.00272

// binWidth bounds how far values are from those of request rows.
const binWidth = 0.001

// scraped is a coordinator with agents, and a Prometheus that reads it.
type scraped struct {
	*programs.Cluster
	prometheus *servertest.Prometheus
	address    string // of the coordinator's pages
}

// startScraped starts a coordinator, two agents and a Prometheus.
func startScraped(t *testing.T) scraped {
	t.Helper()
	cluster := programs.StartLasting(t, nil, "--http-listen", "127.0.0.1:0")
	address := cluster.Coordinator.Await(`"status is served","address":"([^"]+)"`)[1]
	server := servertest.StartPrometheus(t, address)
	cluster.StartAgents("a", "b")
	return scraped{cluster, server, address}
}

// only returns the one value of a query. Another number of values fails the test.
func (s scraped) only(t *testing.T, query string) float64 {
	t.Helper()
	all := s.prometheus.Query(query)
	if len(all) != 1 {
		t.Fatalf("%s: %d values: %v", query, len(all), all)
	}
	return all[0].Value
}

// A real Prometheus that reads a coordinator has the results of each stage: counts and sums exactly, and quantiles
// within the width of a bucket.
func TestPrometheusReadsTheResults(t *testing.T) {
	t.Parallel()
	s, servers := startScraped(t), programs.Simulate(t, 2, "--decode-step", "2ms")
	plan := strings.Replace(influxPlan, "    simulator: {endpoints: 2, decode_step: 2ms, decode_step_per_request: 1ms, cache_blocks: 1000}\n",
		fmt.Sprintf("    endpoints: [%q, %q]\n    model: m\n", servers.URLs[0], servers.URLs[1]), 1)
	r := programs.RunPlan(t, plan, s.Client()...)
	process.Eventually(t, "a stage in progress is read", func() bool {
		return len(s.prometheus.Query(`spate_to_date_started_total{scope="all",stage="0"} > 0 unless on (stage) spate_stage_complete`)) == 1
	})
	r.MustExit(0)
	process.Eventually(t, "the last result is read", func() bool {
		return len(s.prometheus.Query(`spate_stage_complete{stage="1"}`)) == 1
	})
	for _, stage := range r.Results().Stages {
		s.compare(t, stage, fmt.Sprintf(`{run=%q,stage="%d",scope="all"}`, r.Results().Run.ID, stage.Index),
			valuesOf(r.Rows()[stage.Index]))
	}
	s.askDocumented(t, r.Results().Run.ID)
	if n := s.only(t, `count({__name__=~"spate_(to_date|stage)_.+",scope="agent"}) or vector(0)`); n != 0 {
		t.Errorf("%v series of single agents", n)
	}
}

// askDocumented asks the queries of docs/prometheus.md about what Prometheus reads. Each finds something.
func (s scraped) askDocumented(t *testing.T, run string) {
	t.Helper()
	document, err := os.ReadFile("../../docs/prometheus.md")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, q := range documentedQueries(t, string(document), run) {
		for line := range strings.SplitSeq(q.text, "\n") {
			if q.language != "promql" {
				continue
			}
			if asked++; len(s.prometheus.Query(line)) == 0 {
				t.Errorf("%s finds nothing", line)
			}
		}
	}
	if asked < 5 {
		t.Errorf("%d queries are documented", asked)
	}
}

// compare compares a stage with results.json, and with the values of its requests.
func (s scraped) compare(t *testing.T, stage results.StageResult, labels string, values map[string][]int64) {
	t.Helper()
	for name, want := range map[string]uint64{
		"started": stage.Requests.Started, "completed": stage.Requests.Completed, "failed": stage.Requests.Failed,
		"output_tokens": *stage.OutputTokens, "input_tokens": *stage.InputTokens, "good": stage.Goodput.Requests,
	} {
		if got := s.only(t, "spate_to_date_"+name+"_total"+labels); got != float64(want) {
			t.Errorf("%s: %v, results.json has %d", name, got, want)
		}
	}
	programs.Near(t, "throughput", s.only(t, "spate_stage_output_token_throughput"+labels), *stage.OutputTokenThroughput, 1e-9)
	for name, d := range map[string]*histogram.Summary{
		"ttft": stage.TTFT, "tpot": stage.TPOT, "itl": stage.ITL, "e2e": stage.E2E, "send_delay": stage.SendDelay,
	} {
		selector := "spate_to_date_" + name + "_seconds" + labels
		programs.Near(t, name+" sum", s.only(t, "histogram_sum("+selector+")"), d.Mean/1e3*float64(d.Count), 1e-12)
		s.compareQuantiles(t, selector, d, 1e-3, values[name])
	}
	s.compareQuantiles(t, "spate_to_date_osl_tokens"+labels, stage.OSL.Seen, 1, values["osl"])
}

// compareQuantiles compares the quantiles of a native histogram with a summary in a unit. The median of an even number
// of values is between two of them: results.json has the lower one, Prometheus the upper one, and so for each quantile
// whose rank is whole. The values themselves, in nanoseconds or tokens, are from the request rows.
func (s scraped) compareQuantiles(t *testing.T, selector string, d *histogram.Summary, unit float64, values []int64) {
	t.Helper()
	if got := s.only(t, "histogram_count("+selector+")"); got != float64(d.Count) || len(values) != int(d.Count) {
		t.Errorf("%s: %v values, results.json has %d, the rows %d", selector, got, d.Count, len(values))
		return
	}
	slices.Sort(values)
	base := unit / 1e6 // of times, milliseconds in results.json
	if unit == 1 {
		base = 1
	}
	for q, want := range map[float64]float64{0.5: d.P50, 0.9: d.P90, 0.95: d.P95, 0.99: d.P99, 0.999: d.P99_9} {
		got := s.only(t, fmt.Sprintf("histogram_quantile(%v,%s)", q, selector))
		next := float64(values[min(int(q*float64(len(values))), len(values)-1)]) * base
		low, high := want*unit*(1-bucketWidth), max(want*unit, next*(1+binWidth))*(1+bucketWidth)
		if got < low || got > high {
			t.Errorf("%s: quantile %v is %v, want from %v to %v", selector, q, got, low, high)
		}
	}
}

// valuesOf returns the values of the measured requests of a stage in nanoseconds or tokens.
func valuesOf(rows []programs.Row) map[string][]int64 {
	all := map[string][]int64{}
	add := func(name string, values ...int64) { all[name] = append(all[name], values...) }
	for _, r := range rows {
		if r.Unmeasured || !r.Completed() {
			continue
		}
		add("ttft", *r.FirstTokenNs-r.StartNs)
		add("e2e", *r.LastTokenNs-r.StartNs)
		add("itl", r.ITLNs...)
		add("send_delay", r.StartNs-r.ScheduledNs)
		add("osl", int64(*r.OutputTokens))
		if n := int64(*r.OutputTokens); n > 1 {
			add("tpot", (*r.LastTokenNs-*r.FirstTokenNs)/(n-1))
		}
	}
	return all
}
