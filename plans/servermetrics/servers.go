// Package servermetrics says what a plan reads from the serving engines' own metrics: from where, which metrics and how
// often, and the limits on what is taken. Agents read by it, and the coordinator refuses what is beyond the limits.
package servermetrics

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Values of ServerMetrics.read. The third is "ends".
const (
	readSeconds = "seconds"
	// ReadNever reads nothing.
	ReadNever = "never"
)

// Sources returns the addresses at which a target's server metrics are scraped, in the order of their numbers: those
// that the plan names, or /metrics at each of the first MaxSources endpoints, and then the exporters of GPU metrics. It
// returns nil if the plan says never.
func Sources(t *spatev1.Target) []string {
	m := t.GetServerMetrics()
	if m.GetRead() == ReadNever {
		return nil
	}
	return slices.Concat(serverSources(t), m.GetGpuUrls())
}

// serverSources returns the addresses of the metrics of servers, without those of GPUs.
func serverSources(t *spatev1.Target) []string {
	if urls := t.GetServerMetrics().GetUrls(); len(urls) > 0 {
		return urls
	}
	var sources []string
	for _, e := range t.GetEndpoints()[:min(len(t.GetEndpoints()), MaxSources)] {
		sources = append(sources, naming.Metrics(e))
	}
	return sources
}

// EachSecond reports whether a target's server metrics are read each second of a stage, and not only at its ends.
func EachSecond(t *spatev1.Target) bool {
	m := t.GetServerMetrics()
	return m != nil && (m.GetRead() == "" || m.GetRead() == readSeconds)
}

// Asked reports whether a plan asks for a target's server metrics. Otherwise they are read if there are any, and it is
// not an error if there are none.
func Asked(t *spatev1.Target) bool { return t.GetServerMetrics() != nil }

// Account returns the names of the counters and histograms whose growth over a stage is recorded, the most important
// first.
func Account(t *spatev1.Target) []string {
	return slices.Concat(accountHistograms, defaultServerMetrics, accountCounters, t.GetServerMetrics().GetNames())
}

// OnEndpointHost reports whether an address is on the host of one of a target's endpoints, on any port. Such an address
// is reached with the settings of the target's connection.
func OnEndpointHost(t *spatev1.Target, address string) bool {
	host := naming.Hostname(address)
	return host != "" && slices.ContainsFunc(t.GetEndpoints(),
		func(e string) bool { return strings.EqualFold(naming.Hostname(e), host) })
}

// Fill fills in which metrics are read, and when. m may be nil.
func Fill(m *spatev1.ServerMetrics) {
	if m == nil {
		return
	}
	if len(m.GetNames()) == 0 {
		m.Names = defaultServerMetrics
	}
	m.Read = cmp.Or(m.GetRead(), readSeconds)
}

// gpuMetrics are the gauges and counters of GPUs that are read, the most important first: power and energy, activity,
// memory, clocks. Sources, read in November 2026: NVIDIA's dcgm-exporter (etc/default-counters.csv, and
// DCGM_FI_DEV_CLOCKS_EVENT_REASONS, formerly DCGM_FI_DEV_CLOCK_THROTTLE_REASONS, for those who enable it); AMD's
// device-metrics-exporter (docs/configuration/metricslist.md), which may be set to put "amd_" in front of its names.
// Its gpu_clock is left out: it has a series for each die and domain, some 15 for a GPU.
var gpuMetrics = []string{
	"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED",
	"DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_SM_CLOCK",
	"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",

	"gpu_package_power", "gpu_average_package_power", "gpu_power_usage", "gpu_energy_consumed", "gpu_gfx_activity",
	"gpu_used_vram",
	"amd_gpu_package_power", "amd_gpu_average_package_power", "amd_gpu_power_usage", "amd_gpu_energy_consumed",
	"amd_gpu_gfx_activity", "amd_gpu_used_vram",
}

// GPUMetrics returns the names of the metrics that are read from exporters of GPU metrics, the most important first.
func GPUMetrics() []string { return slices.Clone(gpuMetrics) }

// GPUSources returns the numbers of a target's sources that are exporters of GPU metrics: those in [from, to).
func GPUSources(t *spatev1.Target) (from, to int) {
	to = len(Sources(t))
	return to - len(t.GetServerMetrics().GetGpuUrls()), to
}

// IsGPUSource reports whether the source with a number is an exporter of GPU metrics.
func IsGPUSource(t *spatev1.Target, number uint32) bool {
	from, to := GPUSources(t)
	return int(number) >= from && int(number) < to
}

// Limits on what is read from one server. The agent keeps to them, and the coordinator refuses more.
const (
	// MaxSources is the most addresses at which a target's server metrics are scraped.
	MaxSources = 64
	// MaxSeries is the most series of gauges and counters taken from one source at a time.
	MaxSeries = 64
	// MaxCounters is the most series of counters in the account of one source.
	MaxCounters = 128
	// MaxHistograms is the most histograms in the account of one source, counting each label set of a name.
	MaxHistograms = 32
	// MaxBuckets is the most buckets of a histogram. Of a histogram with more, only count and sum are taken.
	MaxBuckets = 128
	// MaxName bounds the name of a metric, in bytes.
	MaxName = 256
	// MaxLabels bounds the text of a series' labels, in bytes.
	MaxLabels = 512
	// MaxValue bounds the absolute value of samples, so that no sum over a stage overflows.
	MaxValue = 1e300
	// MaxCount bounds the values of a histogram: the largest count that a number in Prometheus' text form holds
	// exactly.
	MaxCount = 1 << 53
)

// Names of series that describe the reading itself, beside what the server reports.
const (
	// Up is 1 if the server answered, else 0.
	Up = "up"
	// Dropped is the number of series beyond MaxSeries. The series exists only if there were any.
	Dropped = "scrape_series_left_out"
)

// defaultServerMetrics are the gauges and counters of requests running and waiting, KV cache in use, prefix cache hits,
// preemptions, tokens and speculative decoding, by the names in the engines' own documentation. Renamed metrics are
// listed with both names.
var defaultServerMetrics = []string{
	"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc",
	"vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_queries_total",
	"vllm:gpu_prefix_cache_hits_total",
	"vllm:num_preemptions_total", "vllm:prompt_tokens_total", "vllm:generation_tokens_total",
	"vllm:external_prefix_cache_queries_total", "vllm:external_prefix_cache_hits_total",
	"vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_draft_tokens_total",
	"vllm:spec_decode_num_accepted_tokens_total",

	"sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage", "sglang:cache_hit_rate",
	"sglang:gen_throughput",
	"sglang:num_used_tokens", "sglang:prompt_tokens_total", "sglang:generation_tokens_total",
	"sglang:cached_tokens_total",
	"sglang:num_retracted_reqs", "sglang:num_retracted_requests_total",
	"sglang:spec_accept_length", "sglang:spec_accept_rate",

	"tgi_queue_size", "tgi_batch_current_size", "tgi_batch_current_max_tokens", "tgi_request_count",
	"tgi_request_input_length",
	"tgi_request_generated_tokens",

	"dynamo_frontend_inflight_requests", "dynamo_frontend_active_requests", "dynamo_frontend_queued_requests",
	"dynamo_frontend_requests_total",
	"dynamo_frontend_output_tokens_total", "dynamo_component_inflight_requests", "dynamo_component_kvstats_*",
	"dynamo_component_total_blocks", "dynamo_component_gpu_cache_usage_percent",

	"trtllm_num_requests_running", "trtllm_num_requests_waiting", "trtllm_kv_cache_hit_rate",
	"trtllm_kv_cache_utilization",
	"trtllm_prompt_cached_tokens_total", "trtllm_prompt_tokens_total", "trtllm_generation_tokens_total",
	"trtllm_spec_decode_num_draft_tokens_total", "trtllm_spec_decode_num_accepted_tokens_total",
	"trtllm_spec_decode_acceptance_length",
	"llamacpp:requests_processing", "llamacpp:requests_deferred", "llamacpp:n_busy_slots_per_decode",
	"llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total", "llamacpp:tokens_predicted_total",
	"llamacpp:spec_decode_num_drafts_total", "llamacpp:spec_decode_num_draft_tokens_total",
	"llamacpp:spec_decode_num_accepted_tokens_total",
	"nv_trt_llm_request_metrics", "nv_trt_llm_kv_cache_block_metrics", "nv_trt_llm_inflight_batcher_metrics",
	"nv_inference_pending_request_count", "nv_inference_request_success",
}

// accountHistograms are the engines' histograms of latencies, of tokens where those show what a prefix cache saved, and
// of KV caches handed over from prefill to decode.
// They are read for a stage's account whatever a plan names. Sources, read in November 2026: vLLM 0.32
// v1/metrics/loggers.py; SGLang srt/observability/metrics_collector.py; TensorRT-LLM tensorrt_llm/metrics/collector.py
// (its page is /prometheus/metrics); Dynamo lib/runtime/src/metrics/prometheus_names.rs, module frontend_service; TGI's
// reference of metrics.
var accountHistograms = []string{
	"vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds",
	"vllm:request_time_per_output_token_seconds",
	"vllm:time_per_output_token_seconds", "vllm:e2e_request_latency_seconds", "vllm:request_queue_time_seconds",
	"vllm:request_prefill_time_seconds", "vllm:request_decode_time_seconds", "vllm:request_inference_time_seconds",
	"vllm:nixl_xfer_time_seconds", "vllm:nixl_bytes_transferred",

	"sglang:time_to_first_token_seconds", "sglang:inter_token_latency_seconds",
	"sglang:request_time_per_output_token_seconds",
	"sglang:time_per_output_token_seconds", "sglang:e2e_request_latency_seconds", "sglang:queue_time_seconds",
	"sglang:kv_transfer_latency_ms", "sglang:kv_transfer_total_mb",

	"trtllm_time_to_first_token_seconds", "trtllm_time_per_output_token_seconds", "trtllm_e2e_request_latency_seconds",
	"trtllm_request_queue_time_seconds", "trtllm_request_prefill_time_seconds", "trtllm_request_decode_time_seconds",
	"trtllm_request_inference_time_seconds",

	"dynamo_frontend_time_to_first_token_seconds", "dynamo_frontend_inter_token_latency_seconds",
	"dynamo_frontend_request_duration_seconds", "dynamo_frontend_cached_tokens",
	"dynamo_frontend_input_sequence_tokens",
	"dynamo_component_request_duration_seconds",

	"tgi_request_duration", "tgi_request_queue_duration", "tgi_request_inference_duration",
	"tgi_request_mean_time_per_token_duration",
}

// accountCounters count requests by how they ended, which makes several series of each, and failed handovers.
var accountCounters = []string{
	"vllm:request_success_total", "sglang:num_requests_total", "sglang:num_aborted_requests_total",
	"trtllm_request_success_total",
	"vllm:nixl_num_failed_transfers_total", "sglang:num_transfer_failed_reqs_total",
}
