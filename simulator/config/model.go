package config

import (
	"math"
	"time"
)

// Model is the speed of one engine.
type Model struct {
	// PrefillTokensPerSecond is the prefill speed for one prompt at a time. +Inf: prefill takes no time. Default
	// 50,000.
	PrefillTokensPerSecond float64 `most:"+Inf" plan:"prefill_tokens_per_second"`
	// DecodeStep is the time of a decode step with one request. Default 5 ms.
	DecodeStep time.Duration `plan:"decode_step"`
	// DecodeStepPerRequest is the time that each further request adds to the step. Default 50 us.
	DecodeStepPerRequest time.Duration `plan:"decode_step_per_request"`
	// MaxRunning is the maximum number of requests in prefill and decode together, or in decode alone with
	// disaggregated serving. The rest queue. Default 256.
	MaxRunning int `least:"1" plan:"max_running"`
	// PrefillInterference is the share of its decoding pace that an engine loses while it prefills, 0 to 1. 1 is an
	// engine that does one of the two at a time, prefill first. Disaggregated engines lose none. Default 0.
	PrefillInterference float64 `most:"1" plan:"prefill_interference"`
	// TransferPerThousandTokens is how long a disaggregated prefill engine takes to hand over the KV cache of 1,000
	// prompt tokens, before the first token. Default 0.
	TransferPerThousandTokens time.Duration `plan:"transfer_per_thousand_tokens"`
	// TransferInterference is the share of their decoding pace that the decode engines of a disaggregated group lose
	// while a KV cache is handed over, 0 to 1. 1 is an engine that stands still while it receives one. Default 0.
	TransferInterference float64 `most:"1" plan:"transfer_interference"`
	// PrefillFirst lets a disaggregated prefill engine take all waiting prompts before it hands over the KV caches of
	// the finished ones. These are handed over together, and the decode engines lose TransferInterference from the end
	// of the first prefill on. Default: each KV cache is handed over before the next prompt is taken.
	PrefillFirst bool `plan:"prefill_first"`
	// PrefillPerPrompt is the time that each prompt occupies its prefill engine in addition to the time for its tokens.
	// Default 0.
	PrefillPerPrompt time.Duration `plan:"prefill_per_prompt"`
	// PrefillSharing lets prompts share the prefill engines by time slices: all prompts are in prefill at once, and
	// each gets its share. Default: each engine prefills one prompt at a time, first come, first served.
	PrefillSharing bool `plan:"prefill_sharing"`
	// Overhead is the time before each request is queued for prefill. It occupies nothing. Default 0.
	Overhead time.Duration `plan:"overhead"`
	// PrefillJitter and StepJitter are the coefficients of variation of a lognormal factor with mean 1 on the time of
	// each prefill and of each decode step. The factor of a request's prefill depends only on Config.Seed and the
	// X-Request-Id. Default 0.
	PrefillJitter float64 `plan:"prefill_jitter"`
	StepJitter    float64 `plan:"step_jitter"`
	// StallShare is the chance that a decode step takes Stall longer. Default 0.
	StallShare float64       `most:"1" plan:"stall_share"`
	Stall      time.Duration `plan:"stall"`
	// CacheBlocks is the size of each prefill engine's prefix cache, in blocks of CacheBlockTokens tokens (default 16).
	// 0, the default: there is no cache.
	CacheBlocks      int `plan:"cache_blocks"`
	CacheBlockTokens int `plan:"cache_block_tokens"`
	// SpreadStep produces the tokens of a step evenly over its time, the last one at its end. Default: all at its end,
	// as in real engines.
	SpreadStep bool `flag:"spread-step" help:"send the tokens of a decode step evenly over it (default: all at its end, as engines that batch do)"`
}

func defaultModel() Model {
	return Model{
		PrefillTokensPerSecond: 50_000,
		DecodeStep:             5 * time.Millisecond,
		DecodeStepPerRequest:   50 * time.Microsecond,
		MaxRunning:             256,
		CacheBlockTokens:       16,
	}
}

// SpeedUp makes the engine k times faster in everything it does.
func (m *Model) SpeedUp(k float64) {
	m.PrefillTokensPerSecond *= k
	for _, d := range []*time.Duration{
		&m.DecodeStep, &m.DecodeStepPerRequest, &m.TransferPerThousandTokens, &m.PrefillPerPrompt,
		&m.Overhead, &m.Stall,
	} {
		*d = spedUp(*d, k)
	}
}

// spedUp returns a time divided by k, at most a year, so that instants cannot overflow.
func spedUp(d time.Duration, k float64) time.Duration {
	const longest = 365 * 24 * time.Hour
	return time.Duration(math.Round(min(float64(d)/k, float64(longest))))
}
