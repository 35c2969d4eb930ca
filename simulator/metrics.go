package simulator

import (
	"fmt"
	"net/http"
	"strconv"
)

// metrics answers with the engines' state under vLLM's names, in Prometheus's text format.
func (ep *Endpoint) metrics(w http.ResponseWriter, _ *http.Request) {
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
