package simulator

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spate-load/spate/simulator/engine"
)

// metrics answers with the engines' state under vLLM's names, in Prometheus's text format.
func (ep *endpoint) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	page := exposition{model: strconv.Quote(ep.config.ServedName())}
	page.family("vllm:num_requests_running", "gauge", "Number of requests in prefill and decode.")
	page.engines(ep.engines, func(g *gauges) uint64 { return uint64(g.running.Load()) })
	page.family("vllm:num_requests_waiting", "gauge", "Number of requests waiting for prefill.")
	page.engines(ep.engines, func(g *gauges) uint64 { return uint64(g.waiting.Load()) })
	page.family("vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.")
	page.engines(ep.engines, func(g *gauges) uint64 { return g.promptTokens.Load() })
	page.family("vllm:prefix_cache_queries_total", "counter", "Number of prompt tokens looked up in the prefix cache.")
	page.engines(ep.engines, func(g *gauges) uint64 {
		if ep.config.Model.CacheBlocks == 0 {
			return 0
		}
		return g.promptTokens.Load()
	})
	page.family("vllm:prefix_cache_hits_total", "counter", "Number of prompt tokens found in the prefix cache.")
	page.engines(ep.engines, func(g *gauges) uint64 { return g.cachedTokens.Load() })
	page.family("vllm:generation_tokens_total", "counter", "Number of generation tokens processed.")
	page.engines(ep.engines, func(g *gauges) uint64 { return g.outputTokens.Load() })
	page.family("vllm:request_success_total", "counter", "Count of processed requests by how they ended.")
	page.end("stop", ep.ends.stop.Load())
	page.end("length", ep.ends.length.Load())
	page.end("abort", ep.ends.abort.Load())
	page.latencies(ep.engines)
	_, _ = w.Write(page.text)
}

// exposition is a metrics page that is being written.
type exposition struct {
	model  string // quoted
	metric string
	text   []byte
}

// family starts a metric.
func (x *exposition) family(metric, kind, help string) {
	x.metric = metric
	x.text = fmt.Appendf(x.text, "# HELP %s %s\n# TYPE %s %s\n", metric, help, metric, kind)
}

// engines writes the metric for each engine.
func (x *exposition) engines(engines []*loop, value func(*gauges) uint64) {
	for i, l := range engines {
		x.text = fmt.Appendf(x.text, "%s{engine=\"%d\",model_name=%s} %d\n", x.metric, i, x.model, value(&l.gauges))
	}
}

// end writes the count of one way to end.
func (x *exposition) end(reason string, count uint64) {
	x.text = fmt.Appendf(x.text, "%s{finished_reason=%q,model_name=%s} %d\n", x.metric, reason, x.model, count)
}

// Upper bounds, in seconds, of vLLM's buckets: vllm/v1/metrics, as /metrics of vLLM 0.32 shows them.
var (
	firstTokenBounds = []float64{
		0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
		160, 640, 2560,
	}
	perTokenBounds = []float64{
		0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
	}
	requestBounds = []float64{
		0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
	}
)

// latency is a histogram of times in vLLM's buckets.
type latency struct {
	bounds []time.Duration
	counts []uint64 // one more than bounds
	sum    time.Duration
}

func newLatency(seconds []float64) latency {
	l := latency{counts: make([]uint64, len(seconds)+1)}
	for _, s := range seconds {
		l.bounds = append(l.bounds, time.Duration(s*float64(time.Second)))
	}
	return l
}

// observe adds a time. It searches from the first bucket, because most times are in the first ones.
func (l *latency) observe(d time.Duration) {
	l.sum += d
	i := 0
	for i < len(l.bounds) && d > l.bounds[i] {
		i++
	}
	l.counts[i]++
}

// latencies are an engine's own account of its requests, by the model's clock. Late sending does not show in them.
type latencies struct {
	firstToken, interToken, perToken, request, queue, prefill, decode latency
}

func newLatencies() latencies {
	return latencies{
		firstToken: newLatency(firstTokenBounds),
		interToken: newLatency(perTokenBounds),
		perToken:   newLatency(perTokenBounds),
		request:    newLatency(requestBounds),
		queue:      newLatency(requestBounds),
		prefill:    newLatency(requestBounds),
		decode:     newLatency(requestBounds),
	}
}

// all returns the histograms in the order of /metrics.
func (l *latencies) all() []*latency {
	return []*latency{&l.firstToken, &l.interToken, &l.perToken, &l.request, &l.queue, &l.prefill, &l.decode}
}

func (l *latencies) clone() latencies {
	copied := *l
	for _, h := range copied.all() {
		h.counts = slices.Clone(h.counts)
	}
	return copied
}

// take counts a token, and with the last token its request.
func (l *latencies) take(e *engine.Emission) {
	s := e.Seq
	if e.Produced == 1 {
		s.First = e.At
		l.firstToken.observe(e.At.Sub(s.Arrived))
	} else {
		l.interToken.observe(e.At.Sub(s.Latest))
	}
	s.Latest = e.At
	if e.Produced < s.Output {
		return
	}
	decoding := e.At.Sub(s.First)
	l.perToken.observe(decoding / time.Duration(max(1, s.Output-1))) // 0 for a single token, as in vLLM
	l.request.observe(e.At.Sub(s.Arrived))
	l.queue.observe(s.Began.Sub(s.Queued))
	l.prefill.observe(s.First.Sub(s.Began))
	l.decode.observe(decoding)
}

// histograms are vLLM's names of the histograms of latencies.all.
var histograms = []struct{ metric, help string }{
	{"vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds."},
	{"vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds."},
	{"vllm:request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request."},
	{"vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds."},
	{"vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request."},
	{"vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request."},
	{"vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request."},
}

// latencies writes the engines' histograms.
func (x *exposition) latencies(engines []*loop) {
	copies := make([]latencies, len(engines))
	for i, l := range engines {
		copies[i] = l.latenciesCopy()
	}
	for i, h := range histograms {
		x.family(h.metric, "histogram", h.help)
		for engine := range copies {
			x.latency(engine, copies[engine].all()[i])
		}
	}
}

func (x *exposition) latency(engine int, l *latency) {
	count := uint64(0)
	for i, n := range l.counts {
		count += n
		bound := "+Inf"
		if i < len(l.bounds) {
			bound = prometheusFloat(l.bounds[i].Seconds())
		}
		x.text = fmt.Appendf(x.text, "%s_bucket{engine=\"%d\",le=%q,model_name=%s} %d\n", x.metric, engine, bound,
			x.model, count)
	}
	x.text = fmt.Appendf(x.text, "%s_count{engine=\"%d\",model_name=%s} %d\n", x.metric, engine, x.model, count)
	x.text = fmt.Appendf(x.text, "%s_sum{engine=\"%d\",model_name=%s} %s\n", x.metric, engine, x.model,
		prometheusFloat(l.sum.Seconds()))
}

// prometheusFloat formats a number as Prometheus's Python client does: 1.0, not 1.
func prometheusFloat(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if v == float64(int64(v)) {
		s += ".0"
	}
	return s
}
