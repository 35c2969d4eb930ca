package servertest

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/spate-load/spate/internal/process"
)

// Collector is one OpenTelemetry collector. `make .bin/otelcol` builds it.
type Collector struct {
	// URL is where it takes OTLP over HTTP.
	URL string

	metrics string // it appends what it took to this file
	tb      testing.TB
}

// collectorConfig takes metrics over HTTP, and appends them to a file at once.
const collectorConfig = `
receivers: {otlp: {protocols: {http: {endpoint: %q}}}}
exporters:
  file/metrics: {path: %q, flush_interval: 50ms}
service:
  telemetry: {logs: {level: warn}, metrics: {level: none}}
  pipelines:
    metrics: {receivers: [otlp], exporters: [file/metrics]}
`

// StartCollector runs a collector until the test ends. process.Tool says when the test is skipped.
func StartCollector(tb testing.TB) *Collector {
	tb.Helper()
	address := process.FreeAddress(tb)
	dir := tb.TempDir()
	s := &Collector{URL: "http://" + address, metrics: filepath.Join(dir, "metrics.jsonl"), tb: tb}
	settings := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(settings, fmt.Appendf(nil, collectorConfig, address, s.metrics), 0o600); err != nil {
		tb.Fatal(err)
	}
	process.Start(tb, process.Tool(tb, "otelcol", "the OpenTelemetry collector"), "--config=file:"+settings)
	process.Eventually(tb, "the collector answers", func() bool {
		request, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, s.URL, http.NoBody)
		if err != nil {
			return false
		}
		request.Close = true
		answer, err := http.DefaultClient.Do(request)
		return err == nil && answer.Body.Close() == nil
	})
	return s
}

// CollectedPoint is a data point as the collector passed it on.
type CollectedPoint struct {
	// Name and Unit are those of its metric.
	Name, Unit string
	// Attributes are those of the point.
	Attributes map[string]string
	// StartNano and Nano are its times, in nanoseconds since 1970.
	StartNano, Nano uint64
	// Value is a number. It is 0 for a histogram.
	Value float64
	// Cumulative reports whether the point is of a monotonic cumulative sum or a cumulative histogram.
	Cumulative bool
	// Histogram is a distribution. Nil: the point is a number.
	Histogram *metrics.ExponentialHistogramDataPoint
}

// Points returns all points that the collector passed on until now, in their order.
func (s *Collector) Points() (all []CollectedPoint) {
	s.tb.Helper()
	s.lines(s.metrics, func(line []byte) error {
		var data metrics.MetricsData
		err := protojson.Unmarshal(line, &data)
		for _, r := range data.GetResourceMetrics() {
			for _, scope := range r.GetScopeMetrics() {
				for _, m := range scope.GetMetrics() {
					all = append(all, pointsOf(m)...)
				}
			}
		}
		return err
	})
	return all
}

// lines calls each with the lines of a file. The last line may be incomplete, and is left out.
func (s *Collector) lines(path string, each func([]byte) error) {
	s.tb.Helper()
	file, err := os.Open(path)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer file.Close() // opened for reading only
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if err := each(line); err != nil {
			s.tb.Fatalf("%v in %.1000s", err, line)
		}
	}
}

// pointsOf returns the points of a metric.
func pointsOf(m *metrics.Metric) (all []CollectedPoint) {
	const cumulative = metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
	sum, distributions := m.GetSum(), m.GetExponentialHistogram()
	for _, p := range append(m.GetGauge().GetDataPoints(), sum.GetDataPoints()...) {
		all = append(all, CollectedPoint{
			Name: m.GetName(), Unit: m.GetUnit(), Attributes: attributesOf(p.GetAttributes()),
			StartNano: p.GetStartTimeUnixNano(), Nano: p.GetTimeUnixNano(),
			Value:      p.GetAsDouble() + float64(p.GetAsInt()),
			Cumulative: sum.GetIsMonotonic() && sum.GetAggregationTemporality() == cumulative,
		})
	}
	for _, p := range distributions.GetDataPoints() {
		all = append(all, CollectedPoint{
			Name: m.GetName(), Unit: m.GetUnit(), Attributes: attributesOf(p.GetAttributes()),
			StartNano: p.GetStartTimeUnixNano(), Nano: p.GetTimeUnixNano(), Histogram: p,
			Cumulative: distributions.GetAggregationTemporality() == cumulative,
		})
	}
	return all
}

func attributesOf(all []*common.KeyValue) map[string]string {
	texts := map[string]string{}
	for _, a := range all {
		texts[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return texts
}
