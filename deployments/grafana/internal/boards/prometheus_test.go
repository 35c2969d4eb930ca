package main

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/process"
	"github.com/spate-load/spate/internal/servertest"
)

// bucketWidth is the width of a bucket of a native histogram: 2^(1/256) - 1 is 0.271 %.
const bucketWidth = 0.00272

// A real Prometheus reads the coordinator of a real run. Every query of the board finds something, and what the table
// of stages has is in results.json.
func TestPrometheusBoardShowsARealRun(t *testing.T) {
	var page http.Handler
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { page.ServeHTTP(w, q) }))
	defer pages.Close()
	c := assemble(t)
	page = promhttp.HandlerFor(sink.Gatherer(c.coordinator.LatestRows),
		promhttp.HandlerOpts{MaxRequestsInFlight: 1})
	server := servertest.StartPrometheus(t, strings.TrimPrefix(pages.URL, "http://"))
	from := time.Now()
	result := c.run(t)
	process.Eventually(t, "the last result is there", func() bool {
		return len(server.Query(`last_over_time(spate_stage_complete{stage="1",scope="all"}[1h])`)) == 1
	})
	b := promBoard{T: t, server: server, result: result, from: from, to: time.Now()}
	b.everyQueryAnswers()
	b.variablesChoose()
	b.stages()
}

// promBoard is the board over a Prometheus with a run in it.
type promBoard struct {
	*testing.T
	server   *servertest.Prometheus
	result   *results.Result
	from, to time.Time
}

// fill fills in an expression as Grafana does.
func (b promBoard) fill(text, run string) string {
	seconds := max(60, int(time.Since(b.from).Seconds())+1)
	return strings.NewReplacer("$__rate_interval", "10s", "$__range", fmt.Sprint(seconds, "s"), "$run", run,
		"$target", ".*", "$stage", ".*", "$region", ".*").Replace(text)
}

// ask returns the numbers that a query finds: at the end, or until then every half second.
func (b promBoard) ask(q *PromQL, run string) (all []servertest.Sample) {
	step := b.to
	if q.Range {
		step = b.from
	}
	for ; !step.After(b.to); step = step.Add(time.Second / 2) {
		all = append(all, b.server.QueryAt(b.fill(q.Expr, run), step)...)
	}
	return slices.DeleteFunc(all, func(v servertest.Sample) bool { return math.IsNaN(v.Value) })
}

// everyQueryAnswers runs all queries, for the run and for one that there is not. The labels of a legend are in the
// answer.
func (b promBoard) everyQueryAnswers() {
	for _, p := range runs().Panels {
		for _, target := range p.Targets {
			found := b.ask(target.PromQL, b.result.Run.ID)
			if len(found) == 0 {
				b.Errorf("%s: nothing comes of %s", p.Title, target.Expr)
				continue
			}
			for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if found[0].Labels[label[1]] == "" {
					b.Errorf("%s: the legend wants %s: %v", p.Title, label[1], found[0].Labels)
				}
			}
			if target.Instant {
				if other := b.ask(target.PromQL, "another"); len(other) > 0 {
					b.Errorf("%s: another run shows %v", p.Title, other[0])
				}
			}
		}
	}
}

// variablesChoose checks the values that the variables offer. Grafana asks for the labels of the board's whole time: at
// its end the run may be over, and its counters no longer exported.
func (b promBoard) variablesChoose() {
	want := map[string][]string{"run": {b.result.Run.ID}, "target": {"server a"}, "stage": {"0", "1"},
		"region": {"eu", "us"}}
	of := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, v := range promVariables().List[1:] {
		match := of.FindStringSubmatch(b.fill(v.Query, b.result.Run.ID))
		if match == nil {
			b.Fatalf("variable %s: %s", v.Name, v.Query)
		}
		if got := b.server.LabelValues(match[2], match[1], b.from, b.to); !slices.Equal(got, want[v.Name]) {
			b.Errorf("variable %s offers %q, want %q", v.Name, got, want[v.Name])
		}
	}
}

// stages compares the table of stages with results.json, and the worst verdict with the table.
func (b promBoard) stages() {
	columns, worst := map[string]map[string]float64{}, 0.0
	for _, target := range b.panel("Stages").Targets {
		of := map[string]float64{}
		for _, v := range b.ask(target.PromQL, b.result.Run.ID) {
			of[v.Labels["stage"]] = v.Value
		}
		columns[target.LegendFormat] = of
	}
	for _, s := range b.result.Stages {
		row := fmt.Sprint(s.Index)
		for column, want := range map[string]float64{
			"verdict": float64(s.Trust.Verdict.Number()), "completed": float64(s.Requests.Completed),
			"failed": float64(s.Requests.Failed), "requests/s": *s.RequestThroughput, "output tok/s": *s.OutputTokenThroughput,
		} {
			if got, ok := columns[column][row]; !ok || math.Abs(got-want) > 1e-9*want {
				b.Errorf("stage %s: %s is %v, results.json has %v", row, column, got, want)
			}
		}
		for metric, d := range map[string]*histogram.Summary{"TTFT": s.TTFT, "TPOT": s.TPOT, "ITL": s.ITL, "E2E": s.E2E,
			"send delay": s.SendDelay} {
			b.quantile(row, metric+" p99", 0.99, d, d.P99, columns)
			if metric == "TTFT" || metric == "TPOT" {
				b.quantile(row, metric+" p50", 0.5, d, d.P50, columns)
			}
		}
		worst = max(worst, columns["verdict"][row])
	}
	if got := b.ask(b.panel("Worst verdict so far").Targets[0].PromQL, b.result.Run.ID); got[0].Value != worst {
		b.Errorf("the worst verdict is %v, the table has %v", got[0].Value, worst)
	}
}

// quantile compares a quantile with results.json: it lies in the same bucket. Where its rank is whole, Prometheus has
// the next value.
func (b promBoard) quantile(row, column string, q float64, d *histogram.Summary, want float64,
	columns map[string]map[string]float64,
) {
	low, high := want*(1-bucketWidth), want*(1+bucketWidth)
	if rank := q * float64(d.Count); math.Abs(rank-math.Round(rank)) < 1e-6 {
		high = d.Max * (1 + bucketWidth)
	}
	if got, ok := columns[column][row]; !ok || got < low || got > high {
		b.Errorf("stage %s: %s is %v, results.json has %v", row, column, got, want)
	}
}

func (b promBoard) panel(title string) Panel {
	b.Helper()
	all := runs().Panels
	i := slices.IndexFunc(all, func(p Panel) bool { return p.Title == title })
	if i < 0 {
		b.Fatalf("no panel %q", title)
	}
	return all[i]
}
