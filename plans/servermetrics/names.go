package servermetrics

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
