package servertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/spate-load/spate/internal/process"
)

// Prometheus is one Prometheus. `make .bin/prometheus` builds it.
type Prometheus struct {
	// URL is its base URL.
	URL string

	tb testing.TB
}

// prometheusConfig reads a target once a second, because a page takes a while on a busy machine with the race detector.
// Native histograms need the protobuf format.
const prometheusConfig = `
global: {scrape_interval: 1s, scrape_timeout: 1s, scrape_native_histograms: true}
scrape_configs:
  - job_name: spate
    static_configs: [{targets: [%q]}]
`

// StartPrometheus runs a server until the test ends, and returns when it has read /metrics of an address. process.Tool
// says when the test is skipped.
func StartPrometheus(tb testing.TB, target string) *Prometheus {
	tb.Helper()
	address := process.FreeAddress(tb)
	dir := tb.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, fmt.Appendf(nil, prometheusConfig, target), 0o600); err != nil {
		tb.Fatal(err)
	}
	process.Start(tb, process.Tool(tb, "prometheus", "Prometheus"), "--config.file="+file,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	s := &Prometheus{URL: "http://" + address, tb: tb}
	process.Eventually(tb, "prometheus answers", func() bool {
		_, err := s.get(tb.Context(), "/-/ready")
		return err == nil
	})
	// A new Prometheus takes five seconds before it reads anything.
	process.Eventually(tb, "prometheus reads its target", func() bool { return len(s.Query("up == 1")) == 1 })
	return s
}

// Sample is the value of one series.
type Sample struct {
	// Labels of the series.
	Labels map[string]string
	// Sample is the number. It is 0 for a histogram.
	Value float64
	// Histogram is as Prometheus writes it. Nil: the value is a number.
	Histogram json.RawMessage
}

// Query returns the values of a PromQL expression now. An error fails the test.
func (s *Prometheus) Query(expression string) []Sample {
	s.tb.Helper()
	return s.QueryAt(expression, time.Now())
}

// QueryAt returns the values of a PromQL expression at a time. An error fails the test.
func (s *Prometheus) QueryAt(expression string, at time.Time) (all []Sample) {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(s.tb.Context(), process.Timeout)
	defer cancel()
	var answer struct {
		Data struct {
			Result []struct {
				Metric    map[string]string
				Value     [2]any
				Histogram [2]json.RawMessage
			}
		}
	}
	query := url.Values{"query": {expression}, "time": {at.UTC().Format(time.RFC3339Nano)}}
	text, err := s.get(ctx, "/api/v1/query?"+query.Encode())
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		s.tb.Fatalf("%s: %v", expression, err)
	}
	for _, r := range answer.Data.Result {
		v := Sample{Labels: r.Metric, Histogram: r.Histogram[1]}
		if text, ok := r.Value[1].(string); ok {
			if v.Value, err = strconv.ParseFloat(text, 64); err != nil {
				s.tb.Fatalf("%s: %v", expression, err)
			}
		}
		all = append(all, v)
	}
	return all
}

// LabelValues returns the values, sorted, that a label has in the series that match a selector and have samples between
// two times. Series without the label do not count. An error fails the test.
func (s *Prometheus) LabelValues(label, match string, from, to time.Time) []string {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(s.tb.Context(), process.Timeout)
	defer cancel()
	var answer struct{ Data []string }
	query := url.Values{"match[]": {match}, "start": {from.UTC().Format(time.RFC3339Nano)},
		"end": {to.UTC().Format(time.RFC3339Nano)}}
	text, err := s.get(ctx, "/api/v1/label/"+label+"/values?"+query.Encode())
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		s.tb.Fatalf("%s of %s: %v", label, match, err)
	}
	return answer.Data
}

// get returns the answer of a request. The server must answer 200.
func (s *Prometheus) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", path, answer.Status, text)
	}
	return text, err
}
