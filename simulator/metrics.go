package simulator

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/simulator/engine"
)

// gauges are the values of an engine that /metrics shows beside its latencies.
type gauges [6]atomic.Int64

const (
	gaugeRunning = iota
	gaugeWaiting
	gaugePrompt   // tokens of sequences whose prefill has ended
	gaugeLookedUp // those of engines with a prefix cache
	gaugeCached   // those that the cache had
	gaugeOutput
)

// shown are vLLM's names of the gauges.
var shown = [len(gauges{})]struct{ metric, kind, help string }{
	{"vllm:num_requests_running", "gauge", "Number of requests in prefill and decode."},
	{"vllm:num_requests_waiting", "gauge", "Number of requests waiting for prefill."},
	{"vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed."},
	{"vllm:prefix_cache_queries_total", "counter", "Number of prompt tokens looked up in the prefix cache."},
	{"vllm:prefix_cache_hits_total", "counter", "Number of prompt tokens found in the prefix cache."},
	{"vllm:generation_tokens_total", "counter", "Number of generation tokens processed."},
}

// metrics answers with the engines' state under vLLM's names, in Prometheus's text format.
func (ep *endpoint) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	page := exposition{model: strconv.Quote(ep.config.ServedName())}
	for g, s := range shown {
		page.family(s.metric, s.kind, s.help)
		for i, l := range ep.engines {
			page.sample("", fmt.Sprintf(`engine="%d"`, i), l.gauges[g].Load())
		}
	}
	page.family("vllm:request_success_total", "counter", "Count of processed requests by how they ended.")
	page.sample("", `finished_reason="stop"`, ep.ends.stop.Load())
	page.sample("", `finished_reason="length"`, ep.ends.length.Load())
	page.sample("", `finished_reason="abort"`, ep.ends.abort.Load())
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

// sample writes a value of the metric. label precedes that of the model.
func (x *exposition) sample(suffix, label string, value any) {
	x.text = fmt.Appendf(x.text, "%s%s{%s,model_name=%s} %v\n", x.metric, suffix, label, x.model, value)
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

// latencies are an engine's own account of its requests, by the model's clock. Late sending does not show in them. They
// are in the order of histograms.
type latencies [7]latency

// The histograms by what they are of.
const (
	firstToken = iota
	interToken
	perToken
	request
	queueing
	prefilling
	decoding
)

// histograms are vLLM's names and bounds of them.
var histograms = [len(latencies{})]struct {
	metric, help string
	bounds       []float64
}{
	{"vllm:time_to_first_token_seconds", "time to first token in seconds.", firstTokenBounds},
	{"vllm:inter_token_latency_seconds", "inter-token latency in seconds.", perTokenBounds},
	{"vllm:request_time_per_output_token_seconds", "time_per_output_token_seconds per request.", perTokenBounds},
	{"vllm:e2e_request_latency_seconds", "e2e request latency in seconds.", requestBounds},
	{"vllm:request_queue_time_seconds", "time spent in WAITING phase for request.", requestBounds},
	{"vllm:request_prefill_time_seconds", "time spent in PREFILL phase for request.", requestBounds},
	{"vllm:request_decode_time_seconds", "time spent in DECODE phase for request.", requestBounds},
}

func newLatencies() (l latencies) {
	for i := range histograms {
		l[i] = newLatency(histograms[i].bounds)
	}
	return l
}

func (l latencies) clone() latencies {
	for i := range l {
		l[i].counts = slices.Clone(l[i].counts)
	}
	return l
}

// take counts a token, and with the last token its request.
func (l *latencies) take(e *engine.Emission) {
	s := e.Seq
	if e.Produced == 1 {
		s.First = e.At
		l[firstToken].observe(e.At.Sub(s.Arrived))
	} else {
		l[interToken].observe(e.At.Sub(s.Latest))
	}
	s.Latest = e.At
	if e.Produced < s.Output {
		return
	}
	decode := e.At.Sub(s.First)
	l[perToken].observe(decode / time.Duration(max(1, s.Output-1))) // 0 for a single token, as in vLLM
	l[request].observe(e.At.Sub(s.Arrived))
	l[queueing].observe(s.Began.Sub(s.Queued))
	l[prefilling].observe(s.First.Sub(s.Began))
	l[decoding].observe(decode)
}

// latencies writes the engines' histograms.
func (x *exposition) latencies(engines []*loop) {
	copies := make([]latencies, len(engines))
	for i, l := range engines {
		l.accounts.Lock()
		copies[i] = l.latencies.clone()
		l.accounts.Unlock()
	}
	for i, h := range histograms {
		x.family(h.metric, "histogram", "Histogram of "+h.help)
		for engine := range copies {
			x.latency(engine, &copies[engine][i])
		}
	}
}

func (x *exposition) latency(engine int, l *latency) {
	label, count := fmt.Sprintf(`engine="%d"`, engine), uint64(0)
	for i, n := range l.counts {
		count += n
		bound := "+Inf"
		if i < len(l.bounds) {
			bound = prometheusFloat(l.bounds[i].Seconds())
		}
		x.sample("_bucket", fmt.Sprintf(`%s,le=%q`, label, bound), count)
	}
	x.sample("_count", label, count)
	x.sample("_sum", label, prometheusFloat(l.sum.Seconds()))
}

// prometheusFloat formats a number as Prometheus's Python client does: 1.0, not 1.
func prometheusFloat(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if v == float64(int64(v)) {
		s += ".0"
	}
	return s
}
