package exposition

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/sink"
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
	page := promhttp.HandlerFor(Gatherer(func() []sink.Row {
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
