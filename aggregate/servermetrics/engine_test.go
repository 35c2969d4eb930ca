package servermetrics

import (
	"encoding/json"
	"testing"
)

// increase and level make a counter and a gauge.
func increase(name, labels string, by float64) ServerMetric {
	return ServerMetric{Name: name, Labels: labels, Kind: "counter", Increase: &by}
}

func level(name string, mean, most float64) ServerMetric {
	return ServerMetric{Name: name, Kind: "gauge", Mean: &mean, Max: &most}
}

// timed makes a histogram of a number of values with a mean.
func timed(name string, count uint64, mean float64) ServerMetric {
	return ServerMetric{Name: name, Kind: "histogram", Count: &count, Mean: &mean}
}

// What engines of each kind report, calculated by hand by the engines' definitions.
func TestEngines(t *testing.T) {
	for name, c := range map[string]struct {
		servers [][]ServerMetric
		want    string
	}{
		"nothing": {[][]ServerMetric{{increase("vllm:prompt_tokens_total", "", 5)}}, `null`},
		"two vLLM": {[][]ServerMetric{
			{
				increase("vllm:spec_decode_num_drafts_total", "", 100), increase("vllm:spec_decode_num_draft_tokens_total", "", 300),
				increase("vllm:spec_decode_num_accepted_tokens_total", "", 120),
				increase("vllm:prefix_cache_queries_total", "", 1000), increase("vllm:prefix_cache_hits_total", "", 250),
				increase("vllm:external_prefix_cache_queries_total", "", 750), increase("vllm:external_prefix_cache_hits_total", "", 100),
				level("vllm:kv_cache_usage_perc", 0.25, 0.5),
			},
			{
				increase("vllm:spec_decode_num_drafts_total", "", 100), increase("vllm:spec_decode_num_draft_tokens_total", "", 300),
				increase("vllm:spec_decode_num_accepted_tokens_total", "", 180),
				increase("vllm:prefix_cache_queries_total", "", 1000), level("vllm:kv_cache_usage_perc", 0.75, 0.875),
				increase("vllm:external_prefix_cache_queries_total", "", 0),
				timed("vllm:nixl_xfer_time_seconds", 4, 0.5), timed("vllm:nixl_bytes_transferred", 4, 1000),
				increase("vllm:nixl_num_failed_transfers_total", "", 1),
			},
		}, `{"speculation":{"draft_tokens":600,"accepted_tokens":300,"accepted_share":0.5,"tokens_per_step":2.5},` +
			`"kv_cache_use":0.5,"kv_cache_use_max":0.875,"cache_hits":[{"tier":"device","tokens":250,"share":0.125},` +
			`{"tier":"external","tokens":100,"share":0.05}],` +
			`"kv_transfers":{"count":4,"failed":1,"mean_ms":500,"bytes":4000}}`},
		"vLLM without a KV connector": {[][]ServerMetric{{
			increase("vllm:prefix_cache_queries_total", "", 10), increase("vllm:prefix_cache_hits_total", "", 0),
			increase("vllm:external_prefix_cache_queries_total", "", 0), increase("vllm:external_prefix_cache_hits_total", "", 0),
		}}, `{"speculation":null,"kv_cache_use":null,"kv_cache_use_max":null,` +
			`"cache_hits":[{"tier":"device","tokens":0,"share":0}],"kv_transfers":null}`},
		"SGLang": {[][]ServerMetric{{
			level("sglang:spec_accept_length", 2.5, 3), level("sglang:spec_accept_rate", 0.75, 0.8),
			level("sglang:token_usage", 0.5, 0.5), increase("sglang:prompt_tokens_total", "", 1000),
			increase("sglang:cached_tokens_total", `cache_source="device",model_name="m"`, 400),
			increase("sglang:cached_tokens_total", `cache_source="host",model_name="m"`, 100),
			timed("sglang:kv_transfer_latency_ms", 2, 30), timed("sglang:kv_transfer_total_mb", 2, 3),
		}}, `{"speculation":{"draft_tokens":null,"accepted_tokens":null,"accepted_share":0.75,"tokens_per_step":2.5},` +
			`"kv_cache_use":0.5,"kv_cache_use_max":0.5,"cache_hits":[{"tier":"device","tokens":400,"share":0.4},` +
			`{"tier":"host","tokens":100,"share":0.1}],` +
			`"kv_transfers":{"count":2,"failed":null,"mean_ms":30,"bytes":6291456}}`},
		"SGLang without speculation": {[][]ServerMetric{{level("sglang:spec_accept_length", 0, 0)}}, `null`},
		"TensorRT-LLM": {[][]ServerMetric{{
			increase("trtllm_spec_decode_num_draft_tokens_total", "", 40),
			increase("trtllm_spec_decode_num_accepted_tokens_total", "", 10),
			increase("trtllm_prompt_tokens_total", "", 200), increase("trtllm_prompt_cached_tokens_total", "", 50),
		}}, `{"speculation":{"draft_tokens":40,"accepted_tokens":10,"accepted_share":0.25,"tokens_per_step":null},` +
			`"kv_cache_use":null,"kv_cache_use_max":null,"cache_hits":[{"tier":"all","tokens":50,"share":0.25}],` +
			`"kv_transfers":null}`},
		"llama.cpp": {[][]ServerMetric{{
			increase("llamacpp:prompt_tokens_total", "", 150), increase("llamacpp:prompt_tokens_cached_total", "", 50),
			increase("llamacpp:spec_decode_num_drafts_total", "", 10),
			increase("llamacpp:spec_decode_num_draft_tokens_total", "", 40),
			increase("llamacpp:spec_decode_num_accepted_tokens_total", "", 10),
		}}, `{"speculation":{"draft_tokens":40,"accepted_tokens":10,"accepted_share":0.25,"tokens_per_step":2},` +
			`"kv_cache_use":null,"kv_cache_use_max":null,"cache_hits":[{"tier":"all","tokens":50,"share":0.25}],` +
			`"kv_transfers":null}`},
		"no drafts, failed transfers": {[][]ServerMetric{{
			increase("vllm:spec_decode_num_drafts_total", "", 0), increase("vllm:spec_decode_num_draft_tokens_total", "", 0),
			increase("vllm:spec_decode_num_accepted_tokens_total", "", 0), timed("vllm:nixl_xfer_time_seconds", 0, 0),
			increase("vllm:nixl_num_failed_transfers_total", "", 2),
		}}, `{"speculation":null,"kv_cache_use":null,"kv_cache_use_max":null,"cache_hits":[],` +
			`"kv_transfers":{"count":0,"failed":2,"mean_ms":null,"bytes":null}}`},
	} {
		var servers []ServerResult
		for _, metrics := range c.servers {
			servers = append(servers, ServerResult{Metrics: metrics})
		}
		got, err := json.Marshal(Engines(servers))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", name, err, got, c.want)
		}
	}
}

// Engines are summed by role.
func TestEngineRoles(t *testing.T) {
	of := func(role string, metrics ...ServerMetric) ServerResult {
		return ServerResult{Role: role, Metrics: metrics}
	}
	got, err := json.Marshal(EngineRoles([]ServerResult{
		of("prefill", level("vllm:kv_cache_usage_perc", 0.25, 0.25)), of("", level("vllm:kv_cache_usage_perc", 1, 1)),
		of("decode", level("vllm:kv_cache_usage_perc", 0.5, 0.5)), of("router", increase("requests_total", "", 3)),
		of("decode", level("vllm:kv_cache_usage_perc", 0.75, 1)),
	}))
	const rest = `"cache_hits":[],"kv_transfers":null}`
	if want := `[{"role":"decode","speculation":null,"kv_cache_use":0.625,"kv_cache_use_max":1,` + rest +
		`,{"role":"prefill","speculation":null,"kv_cache_use":0.25,"kv_cache_use_max":0.25,` + rest + `]`; err != nil ||
		string(got) != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
	}
}
