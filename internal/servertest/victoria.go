package servertest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/spate-load/spate/internal/process"
)

// Victoria is one VictoriaMetrics. `make .bin/victoria-metrics` builds it.
type Victoria struct {
	// URL is its base URL.
	URL string
	// Token is "user:password". Empty: the server does not ask for one.
	Token string

	tb testing.TB
}

// StartVictoria runs a server until the test ends. process.Tool says when the test is skipped.
func StartVictoria(tb testing.TB, token string) *Victoria {
	tb.Helper()
	address := process.FreeAddress(tb)
	args := []string{
		"-storageDataPath=" + tb.TempDir(), "-httpListenAddr=" + address, "-retentionPeriod=100y", "-loggerLevel=ERROR",
		"-dedup.minScrapeInterval=1ms", // as docs/influxdb.md recommends: a point written twice counts once
		"-memory.allowedBytes=128MB", "-search.latencyOffset=0s",
	}
	if user, password, ok := strings.Cut(token, ":"); ok {
		args = append(args, "-httpAuth.username="+user, "-httpAuth.password="+password)
	}
	process.Start(tb, process.Tool(tb, "victoria-metrics", "VictoriaMetrics"), args...)
	s := &Victoria{URL: "http://" + address, Token: token, tb: tb}
	process.Eventually(tb, "victoria-metrics answers", func() bool {
		answer, err := s.get(tb.Context(), "/health")
		if err != nil {
			return false
		}
		_ = answer.Body.Close() // The body is not needed.
		return true
	})
	return s
}

// VictoriaSeries is one metric: its labels, including "__name__", and its values at times in milliseconds.
type VictoriaSeries struct {
	// Metric holds the labels.
	Metric map[string]string `json:"metric"`
	// Values are the values at Timestamps.
	Values []float64 `json:"values"`
	// Timestamps are in milliseconds since 1970.
	Timestamps []int64 `json:"timestamps"`
}

// Export returns all series that a selector matches, including recent writes. An error fails the test.
func (s *Victoria) Export(selector string) (all []VictoriaSeries) {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(s.tb.Context(), process.Timeout)
	defer cancel()
	flushed, err := s.get(ctx, "/internal/force_flush")
	if err != nil {
		s.tb.Fatal(err)
	}
	_ = flushed.Body.Close() // The body is not needed.
	answer, err := s.get(ctx, "/api/v1/export?"+url.Values{"match[]": {selector}, "start": {"0"}}.Encode())
	if err != nil {
		s.tb.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }() // The body is read to its end below.
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var one VictoriaSeries
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			s.tb.Fatalf("export %s: %v: %s", selector, err, lines.Text())
		}
		all = append(all, one)
	}
	if err := lines.Err(); err != nil {
		s.tb.Fatal(err)
	}
	return all
}

// get sends a request. The server must answer 2xx.
func (s *Victoria) get(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Close = true
	if user, password, ok := strings.Cut(s.Token, ":"); ok {
		request.SetBasicAuth(user, password)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 != 2 {
		_ = answer.Body.Close() // The body is not needed.
		return nil, fmt.Errorf("%s answers %s", path, answer.Status)
	}
	return answer, nil
}
