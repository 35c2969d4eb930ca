package sink_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/sinktest"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
)

// BenchmarkScrape measures what one scrape of a stage with 1,000 agents in two regions takes: its rows, and the page
// that Prometheus asks for.
func BenchmarkScrape(b *testing.B) {
	rec := fixture.StageRecord(0, 1000)
	stage := merge.NewStage(rec)
	for a := range 1000 {
		if err := stage.Add(fixture.BusySnapshot(a, 1)); err != nil {
			b.Fatal(err)
		}
	}
	page := promhttp.HandlerFor(sink.Gatherer(func() []sink.Row {
		return points.ToDate(points.Run{ID: "run", Plan: "plan"}, rec, stage)
	}), promhttp.HandlerOpts{})
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	request.Header.Set("Accept-Encoding", "gzip")
	b.ReportAllocs()
	bytes := 0
	for b.Loop() {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, request)
		bytes = w.Body.Len()
	}
	b.ReportMetric(float64(bytes), "bytes/page")
}

// BenchmarkRows measures the part of a scrape for which merging waits.
func BenchmarkRows(b *testing.B) {
	rec := fixture.StageRecord(0, 1000)
	stage := merge.NewStage(rec)
	for a := range 1000 {
		if err := stage.Add(fixture.BusySnapshot(a, 1)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		stage.ToDateWithoutAgents()
	}
}

// shown returns the page of rows in Prometheus' text format.
func shown(t *testing.T, rows []sink.Row) string {
	t.Helper()
	families, err := sink.Gatherer(func() []sink.Row { return rows }).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&page, f); err != nil {
			t.Fatal(err)
		}
	}
	return page.String()
}

// Rows to date have counters and whole distributions, results what is neither. No percentile is shown, which somebody
// could average.
func TestPage(t *testing.T) {
	h := histogram.New(histogram.Times)
	h.Record(3e6)
	window, result := sinktest.Window(3), sinktest.Stage()
	window.ToDate.Distributions = []sink.Distribution{{Name: "ttft_ms", Summary: *h.Summary(1e6),
		Buckets: h.Exponential(measure.Nanoseconds)}}
	window.ToDate.Counters.Completed, window.ToDate.Errors = 17, map[string]uint64{"http_503": 4}
	window.Scope.Target = "odd \xff \"name\"\n"
	page := shown(t, append(result.Rows(), window.ToDateRow()))
	labels := `load="concurrency 8",plan="`
	for _, want := range []string{
		"# HELP spate_to_date_completed_total Measured requests that completed.\n",
		"# TYPE spate_to_date_completed_total counter\nspate_to_date_completed_total{", "} 17\n",
		`spate_to_date_errors_total{class="http_503",`, labels, "} 4\n", `target="odd ` + "\uFFFD" + ` \"name\"\n",`,
		"# TYPE spate_to_date_ttft_seconds histogram\n", "spate_to_date_ttft_seconds_sum{", "} 0.003\n",
		"# TYPE spate_stage_complete gauge\n", "spate_stage_duration_seconds{",
	} {
		if !bytes.Contains([]byte(page), []byte(want)) {
			t.Errorf("no %q", want)
		}
	}
	for _, unwanted := range []string{"quantile", "_p99", "_mean", "spate_stage_completed", "failure"} {
		if bytes.Contains([]byte(page), []byte(unwanted)) {
			t.Errorf("%q is there", unwanted)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}
