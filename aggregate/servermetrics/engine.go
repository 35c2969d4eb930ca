package servermetrics

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// EngineResult is what engines report about their own work in a stage, summed over all servers: counters between the
// two readings of servers[], gauges over the measured part.
type EngineResult struct {
	// Speculative decoding. Null: the engines report none, or drafted nothing.
	Speculation *Speculation `json:"speculation"`
	// Mean share of the KV cache in use, from 0 to 1: the mean over the engines. Null: gauges were not read.
	KVCacheUse *float64 `json:"kv_cache_use"`
	// Largest share of the KV cache in use that an engine reported. Null: gauges were not read.
	KVCacheUseMax *float64 `json:"kv_cache_use_max"`
	// Where prompt tokens were found instead of being computed. Empty: the engines do not report it, or looked up none.
	CacheHits []CacheHits `json:"cache_hits"`
	// KV caches handed over from prefill to decode engines. Null: the engines report none.
	Transfers *Transfers `json:"kv_transfers"`
}

// Speculation counts drafts of speculative decoding.
type Speculation struct {
	// Drafted tokens. Null: the engines only report their means.
	DraftTokens *float64 `json:"draft_tokens"`
	// Drafted tokens that the model accepted.
	AcceptedTokens *float64 `json:"accepted_tokens"`
	// accepted_tokens / draft_tokens, or the mean of the engines' gauges of it. Null: gauges were not read.
	AcceptedShare *float64 `json:"accepted_share"`
	// Mean number of tokens that a step of the model yields for a request: the accepted ones and its own. It is 1 +
	// accepted tokens / drafts, or the mean of the engines' gauges of it. Null: gauges were not read, or the engines do
	// not count their drafts.
	TokensPerStep *float64 `json:"tokens_per_step"`
}

// CacheHits is one tier of KV caches.
type CacheHits struct {
	// Tier as the engine names it: "device", "host", "storage", or "external" behind vLLM's KV connector. "all": the
	// engine does not tell tiers apart.
	Tier string `json:"tier"`
	// Prompt tokens found there.
	Tokens float64 `json:"tokens"`
	// tokens as a share of all prompt tokens that the engines looked up, from 0 to 1.
	Share float64 `json:"share"`
}

// Transfers counts handovers of KV caches between engines.
type Transfers struct {
	// Handovers that succeeded.
	Count uint64 `json:"count"`
	// Handovers that failed. Null: the engines do not report it.
	Failed *float64 `json:"failed"`
	// Mean time of a handover, in milliseconds. Null: there was none.
	MeanMs *float64 `json:"mean_ms"`
	// Bytes handed over. Null: the engines do not report it.
	Bytes *float64 `json:"bytes"`
}

// Engines returns what the engines behind servers report about their own work, or nil if they report nothing of it. If
// each request goes through several engines, as with separate prefill and decode, each engine's tokens count.
func Engines(servers []ServerResult) *EngineResult {
	m := engineMetrics(servers)
	r := EngineResult{Speculation: m.speculation(), CacheHits: m.cacheHits(), Transfers: m.transfers()}
	r.KVCacheUse, r.KVCacheUseMax = m.gauge(named("kv_cache_use")...)
	if r.Speculation == nil && r.KVCacheUse == nil && len(r.CacheHits) == 0 && r.Transfers == nil {
		return nil
	}
	return &r
}

// EngineRole is what the engines of one role report, such as prefill or decode.
type EngineRole struct {
	// Role as the plan says.
	Role string `json:"role"`
	EngineResult
}

// EngineRoles is Engines for the servers of each role, sorted by role. Servers without a role, and roles whose engines
// report nothing, are left out.
func EngineRoles(servers []ServerResult) []EngineRole {
	byRole := map[string][]ServerResult{}
	for _, s := range servers {
		byRole[s.Role] = append(byRole[s.Role], s)
	}
	roles := []EngineRole{}
	for _, role := range slices.Sorted(maps.Keys(byRole)) {
		if r := Engines(byRole[role]); r != nil && role != "" {
			roles = append(roles, EngineRole{role, *r})
		}
	}
	return roles
}

// engineMetrics are the metrics of all servers. Of several names for one metric, which engines of different kinds and
// versions have, those of all servers count.
type engineMetrics []ServerResult

// each calls fn with the series that have one of the names. Counters may lack "_total".
func (m engineMetrics) each(fn func(ServerMetric), names ...string) {
	for _, s := range m {
		for _, series := range s.Metrics {
			if slices.Contains(names, strings.TrimSuffix(series.Name, "_total")) {
				fn(series)
			}
		}
	}
}

// counter returns the growth of counters, nil if there are none.
func (m engineMetrics) counter(names ...string) (sum *float64) {
	m.each(func(s ServerMetric) {
		if s.Increase != nil {
			sum = new(deref(sum) + *s.Increase)
		}
	}, names...)
	return sum
}

// deref returns a value, 0 for nil.
func deref(v *float64) float64 { return *cmp.Or(v, new(0.)) }

// gauge returns the mean of the means of gauges and the largest reading of all, nil if there are none. Gauges that
// always were 0 count.
func (m engineMetrics) gauge(names ...string) (mean, most *float64) {
	sum, n := 0.0, 0
	m.each(func(s ServerMetric) {
		if s.Mean == nil || s.Max == nil {
			return
		}
		sum, n = sum+*s.Mean, n+1
		most = new(max(deref(most), *s.Max))
	}, names...)
	if n == 0 {
		return nil, nil
	}
	return new(sum / float64(n)), most
}

// histogram returns the number and the sum of a histogram's values. ok is false if there is none.
func (m engineMetrics) histogram(name string) (count uint64, sum float64, ok bool) {
	m.each(func(s ServerMetric) {
		if s.Count == nil {
			return
		}
		count, ok = count+*s.Count, true
		sum += deref(s.Mean) * float64(*s.Count)
	}, name)
	return count, sum, ok
}

// speculation returns what was drafted. All but SGLang count tokens, vLLM and llama.cpp count drafts, and SGLang has
// gauges alone, which are 0 without speculative decoding.
func (m engineMetrics) speculation() *Speculation {
	s := Speculation{
		DraftTokens: m.counter("vllm:spec_decode_num_draft_tokens", "trtllm_spec_decode_num_draft_tokens",
			"llamacpp:spec_decode_num_draft_tokens"),
		AcceptedTokens: m.counter("vllm:spec_decode_num_accepted_tokens", "trtllm_spec_decode_num_accepted_tokens",
			"llamacpp:spec_decode_num_accepted_tokens"),
	}
	if drafts := m.counter("vllm:spec_decode_num_drafts", "llamacpp:spec_decode_num_drafts"); deref(drafts) > 0 && s.AcceptedTokens != nil {
		s.TokensPerStep = new(1 + *s.AcceptedTokens / *drafts)
	} else if mean, most := m.gauge("sglang:spec_accept_length", "trtllm_spec_decode_acceptance_length"); deref(most) > 0 {
		s.TokensPerStep = mean
	}
	if deref(s.DraftTokens) > 0 && s.AcceptedTokens != nil {
		s.AcceptedShare = new(*s.AcceptedTokens / *s.DraftTokens)
	} else if mean, most := m.gauge("sglang:spec_accept_rate"); deref(most) > 0 {
		s.AcceptedShare = mean
	}
	if deref(s.DraftTokens) == 0 && s.TokensPerStep == nil && s.AcceptedShare == nil {
		return nil
	}
	return &s
}

// cacheHits returns the hits by tier. Tokens that engines took over from an external tier are not among those that
// their own cache had.
func (m engineMetrics) cacheHits() []CacheHits {
	out := []CacheHits{}
	looked := deref(m.counter("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries", "sglang:prompt_tokens",
		"trtllm_prompt_tokens", "llamacpp:prompt_tokens", "llamacpp:prompt_tokens_cached"))
	if looked <= 0 {
		return out
	}
	tiers := map[string]float64{}
	add := func(tier string, names ...string) {
		if n := m.counter(names...); n != nil {
			tiers[tier] += *n
		}
	}
	add("device", "vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits")
	if deref(m.counter("vllm:external_prefix_cache_queries")) > 0 { // there is a KV connector
		add("external", "vllm:external_prefix_cache_hits")
	}
	add("all", "trtllm_prompt_cached_tokens", "llamacpp:prompt_tokens_cached")
	m.each(func(s ServerMetric) {
		if labels, err := parseLabels(s.Labels); err == nil && s.Increase != nil {
			tiers[cmp.Or(labels["cache_source"], "all")] += *s.Increase
		}
	}, "sglang:cached_tokens")
	for _, tier := range slices.Sorted(maps.Keys(tiers)) {
		out = append(out, CacheHits{Tier: tier, Tokens: tiers[tier], Share: tiers[tier] / looked})
	}
	return out
}

// transfers returns the handovers of KV caches: by NIXL for vLLM, which measures in seconds and bytes, and SGLang's,
// which measures in milliseconds and MiB.
func (m engineMetrics) transfers() *Transfers {
	const mib = 1 << 20
	seconds, ofVLLM, known := m.histogram("vllm:nixl_xfer_time_seconds")
	ms, ofSGLang, also := m.histogram("sglang:kv_transfer_latency_ms")
	if !known && !also || seconds+ms == 0 && deref(m.failures()) == 0 {
		return nil
	}
	t := &Transfers{Count: seconds + ms, Failed: m.failures()}
	if t.Count > 0 {
		t.MeanMs = new((ofVLLM*msPerSecond + ofSGLang) / float64(t.Count))
	}
	_, bytes, known := m.histogram("vllm:nixl_bytes_transferred")
	_, size, also := m.histogram("sglang:kv_transfer_total_mb")
	if known || also {
		t.Bytes = new(bytes + mib*size)
	}
	return t
}

// failures returns the number of failed handovers.
func (m engineMetrics) failures() *float64 {
	return m.counter("vllm:nixl_num_failed_transfers", "sglang:num_transfer_failed_reqs")
}
