package plans

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// MaxServerSources is the most places at which a target's servers are asked for their metrics.
const MaxServerSources = 64

// defaultServerMetrics are what engines tell of requests running and waiting, KV cache in use, prefix cache hits, preemptions and tokens,
// by the names in their own documentation. Those that were renamed have both names.
var defaultServerMetrics = []string{
	"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc",
	"vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_hits_total",
	"vllm:num_preemptions_total", "vllm:prompt_tokens_total", "vllm:generation_tokens_total",

	"sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage", "sglang:cache_hit_rate", "sglang:gen_throughput",
	"sglang:num_used_tokens", "sglang:prompt_tokens_total", "sglang:generation_tokens_total", "sglang:cached_tokens_total",
	"sglang:num_retracted_reqs", "sglang:num_retracted_requests_total",

	"tgi_queue_size", "tgi_batch_current_size", "tgi_batch_current_max_tokens", "tgi_request_count", "tgi_request_input_length",
	"tgi_request_generated_tokens",

	"dynamo_frontend_inflight_requests", "dynamo_frontend_active_requests", "dynamo_frontend_queued_requests", "dynamo_frontend_requests_total",
	"dynamo_frontend_output_tokens_total", "dynamo_frontend_cached_tokens", "dynamo_component_inflight_requests", "dynamo_component_kvstats_*",
	"dynamo_component_total_blocks", "dynamo_component_gpu_cache_usage_percent",

	"trtllm_num_requests_running", "trtllm_num_requests_waiting", "trtllm_kv_cache_hit_rate", "trtllm_kv_cache_utilization",
	"trtllm_prompt_cached_tokens_total", "trtllm_prompt_tokens_total", "trtllm_generation_tokens_total", "nv_trt_llm_request_metrics", "nv_trt_llm_kv_cache_block_metrics",
	"nv_trt_llm_inflight_batcher_metrics", "nv_inference_pending_request_count", "nv_inference_request_success",
}

// ServerSources returns the addresses at which the servers of a target tell of themselves, in the order of their numbers: those that the
// plan names, or /metrics at each endpoint. None: the plan does not ask for their metrics.
func ServerSources(t *spatev1.Target) []string {
	m := t.GetServerMetrics()
	if m == nil || len(m.GetUrls()) > 0 {
		return m.GetUrls()
	}
	var sources []string
	for _, e := range t.GetEndpoints()[:min(len(t.GetEndpoints()), MaxServerSources)] {
		sources = append(sources, baseURL(e)+"/metrics")
	}
	return sources
}

// BesideEndpoint says whether an address is on the machine of one of a target's endpoints, whatever its port: what serves their metrics there is
// reached as the target's connection says.
func BesideEndpoint(t *spatev1.Target, address string) bool {
	host := hostname(address)
	return host != "" && slices.ContainsFunc(t.GetEndpoints(), func(endpoint string) bool { return strings.EqualFold(hostname(endpoint), host) })
}

// hostname is the host of a URL without its port, empty if it is none.
func hostname(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// fillServerMetrics fills in which metrics are read.
func fillServerMetrics(m *spatev1.ServerMetrics) {
	if m != nil && len(m.GetNames()) == 0 {
		m.Names = defaultServerMetrics
	}
}

// serverMetrics checks where servers are asked for their metrics.
func (c *checker) serverMetrics(path string, t *spatev1.Target) {
	m := t.GetServerMetrics()
	if m == nil {
		return
	}
	if n := len(t.GetEndpoints()); len(m.GetUrls()) == 0 && n > MaxServerSources {
		c.wrong(path, fmt.Sprintf("at most %d servers are asked for their metrics, and the target has %d endpoints: name them by urls", MaxServerSources, n))
	}
	for i, text := range m.GetUrls() {
		if problem := metricsProblem(text); problem != "" {
			c.wrong(fmt.Sprintf("%s.urls[%d]", path, i), problem)
		}
	}
}

// metricsProblem says what is wrong with an address of metrics, never with its text: it may hold a password.
func metricsProblem(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "":
		return "must be a URL like http://localhost:8000/metrics"
	case u.User != nil:
		return "must not contain a user or password: api_key and headers go to the hosts of the target's endpoints"
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return "must not contain a query (?...) or a fragment (#...)"
	case !validPort(u):
		return "must have a port from 1 to 65535, or none"
	}
	return ""
}
