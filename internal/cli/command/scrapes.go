package command

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/time/rate"
)

// Bounds of scrapes. Prometheus comes once in 1 to 60 s, so only those who do not mean well meet them.
const (
	// scrapesPerSecond and scrapesAtOnce bound how much processor time scrapes can take.
	scrapesPerSecond = 10
	scrapesAtOnce    = 4
	// scrapeTimeout is how long a client may take to read the page.
	scrapeTimeout = 10 * time.Second
)

// metricsPage serves the metrics of the registry and, unless it is nil, of results. Scrapes beyond the bounds are
// answered 429 or 503; spate_scrapes_total counts all by the code of the answer.
func metricsPage(registry *prometheus.Registry, results prometheus.Gatherer) http.Handler {
	scrapes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "spate_scrapes_total", Help: "Scrapes of this page, by the code of the answer.",
	}, []string{"code"})
	registry.MustRegister(scrapes)
	gatherers := prometheus.Gatherers{registry}
	if results != nil {
		gatherers = append(gatherers, results)
	}
	// A metric that cannot be shown, such as one of two endpoints with one name, must not hide the others.
	page := promhttp.HandlerFor(gatherers, promhttp.HandlerOpts{
		MaxRequestsInFlight: scrapesAtOnce, ErrorHandling: promhttp.ContinueOnError,
	})
	limiter := rate.NewLimiter(scrapesPerSecond, scrapesPerSecond)
	limited := promhttp.InstrumentHandlerCounter(scrapes,
		http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if !limiter.Allow() {
				http.Error(w, "too many scrapes", http.StatusTooManyRequests)
				return
			}
			page.ServeHTTP(w, q)
		}))
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		// A writer without deadlines is not a connection, but one of a test.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(scrapeTimeout))
		limited.ServeHTTP(w, q)
	})
}
