package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/time/rate"
)

// Status serves the state of a running daemon over HTTP: /healthz, /metrics for Prometheus, and /debug/pprof on
// request. It serves no secrets and takes no commands.
type Status struct {
	Listen string `flag:"http-listen" help:"<IP:PORT> that serves /healthz and /metrics (Prometheus); empty: none"`
	PProf  bool   `rare:"yes" flag:"pprof" help:"with --http-listen: serve /debug/pprof too, which shows what the program does in detail"`
	// PProfPublic serves /debug/pprof to everybody who can reach Listen.
	PProfPublic bool `rare:"yes" flag:"pprof-public" help:"with --pprof: serve it beyond this machine, to anyone who can reach --http-listen"`
	// Results is what /metrics has besides the daemon's own metrics. Nil: nothing.
	Results prometheus.Gatherer
}

// Check finds mistakes in the flags.
func (s *Status) Check() error {
	if s.Listen == "" {
		if s.PProf {
			return errors.New("--pprof needs --http-listen: give it an address")
		}
		return nil
	}
	if _, _, err := net.SplitHostPort(s.Listen); err != nil {
		return fmt.Errorf("--http-listen %q: want IP:PORT, for example 127.0.0.1:9464", s.Listen)
	}
	if s.PProf && !s.PProfPublic && !Loopback(s.Listen) {
		return fmt.Errorf("--pprof with --http-listen %s: anyone who can reach it could read the program's memory and slow it down: "+
			"listen on 127.0.0.1, or give --pprof-public if you trust the network", s.Listen)
	}
	return nil
}

// Serve serves until the returned function is called, which stops the server and waits for its end. healthy returns why
// the daemon cannot work now, or nil if it can. If Listen is empty, Serve does nothing.
func (s *Status) Serve(
	ctx context.Context, metrics prometheus.Collector, healthy func() error, logger *slog.Logger,
) (stop func(), err error) {
	if s.Listen == "" {
		return func() {}, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.Listen)
	if err != nil {
		return nil, fmt.Errorf("--http-listen: %w", err)
	}
	server := &http.Server{Handler: s.handler(metrics, healthy), ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("status server failed", "error", err)
		}
	}()
	logger.Info("status is served", "address", l.Addr().String())
	return func() {
		_ = server.Close() // no request is worth waiting for
		<-done
	}, nil
}

// handler serves the pages.
func (s *Status) handler(metrics prometheus.Collector, healthy func() error) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metricsPage(registry, s.Results))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := healthy(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	if s.PProf {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	}
	return mux
}

// Add tells one value of a metric. Labels are nil for none.
type Add func(name, help string, value float64, labels prometheus.Labels)

// Collector tells the values of a program's metrics at each scrape.
type Collector func(gauge, counter Add)

// Describe sends nothing: which metrics there are is known when they are collected.
func (c Collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads and sends the values.
func (c Collector) Collect(out chan<- prometheus.Metric) {
	of := func(kind prometheus.ValueType) Add {
		return func(name, help string, value float64, labels prometheus.Labels) {
			out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, labels), kind, value)
		}
	}
	c(of(prometheus.GaugeValue), of(prometheus.CounterValue))
}

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
