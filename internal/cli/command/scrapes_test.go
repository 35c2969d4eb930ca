package command

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// untimely is a connection whose client must read within a time.
type untimely struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (u *untimely) SetWriteDeadline(at time.Time) error {
	u.deadline = at
	return nil
}

// twice is a gatherer of one metric that is there twice, and of another one.
func twice() ([]*dto.MetricFamily, error) {
	gauge := func(value float64) *dto.Metric { return &dto.Metric{Gauge: &dto.Gauge{Value: &value}} }
	return []*dto.MetricFamily{
		{Name: new("spate_test_single"), Type: new(dto.MetricType_GAUGE), Metric: []*dto.Metric{gauge(3)}},
		{Name: new("spate_test_twice"), Type: new(dto.MetricType_GAUGE), Metric: []*dto.Metric{gauge(1), gauge(2)}},
	}, nil
}

// Those who scrape without an end, or who do not read, take bounded time. What they were refused is counted.
func TestScrapesAreBounded(t *testing.T) {
	page := metricsPage(prometheus.NewRegistry(), prometheus.GathererFunc(twice))
	codes := map[int]int{}
	for range 3 * scrapesPerSecond {
		w := &untimely{ResponseRecorder: httptest.NewRecorder()}
		page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		codes[w.Code]++
		if left := time.Until(w.deadline); left <= 0 || left > scrapeTimeout {
			t.Fatalf("the client may take %v", left)
		}
		if body := w.Body.String(); w.Code == http.StatusOK && (!strings.Contains(body, "spate_test_single 3\n") ||
			!strings.Contains(body, "spate_test_twice 1\n")) {
			t.Fatalf("a metric that is there twice hides others:\n%s", body)
		}
	}
	if codes[http.StatusOK] < scrapesPerSecond || codes[http.StatusTooManyRequests] < scrapesPerSecond {
		t.Errorf("answers by code: %v", codes)
	}
}

// The page counts the scrapes before.
func TestScrapesAreCounted(t *testing.T) {
	page := metricsPage(prometheus.NewRegistry(), nil)
	body := ""
	for range 3 {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		body = w.Body.String()
	}
	if !strings.Contains(body, `spate_scrapes_total{code="200"} 2`) {
		t.Errorf("two scrapes before this one:\n%s", body)
	}
}
