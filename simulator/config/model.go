package config

import (
	"math"
	"time"
)

// Model is the speed of one engine.
type Model struct {
	// PrefillTokensPerSecond is the prefill speed for one prompt at a time. +Inf: prefill takes no time. Default
	// 50,000.
	PrefillTokensPerSecond float64 `most:"+Inf" plan:"prefill_tokens_per_second" flag:"prefill" help:"prompt <tokens per second> of one engine"`
	// DecodeStep is the time of a decode step with one request. Default 5 ms.
	DecodeStep time.Duration `flag:"decode-step" help:"time of a decode step with one running request"`
	// DecodeStepPerRequest is the time that each further request adds to the step. Default 50 us.
	DecodeStepPerRequest time.Duration `flag:"decode-step-per-request" help:"time that each further running request adds to it"`
	// MaxRunning is the maximum number of requests in prefill and decode together, or in decode alone with
	// disaggregated serving. The rest queue. Default 256.
	MaxRunning int `least:"1" flag:"max-running" help:"largest number of requests that one engine runs; the rest queue"`
	// PrefillInterference is the share of its decoding pace that an engine loses while it prefills, 0 to 1. 1 is an
	// engine that does one of the two at a time, prefill first. Disaggregated engines lose none. Default 0.
	PrefillInterference float64 `most:"1" flag:"prefill-interference" help:"<share> of its decoding pace that an engine loses while it prefills, from 0 to 1 (default 0)"`
	// TransferPerThousandTokens is how long a disaggregated prefill engine takes to hand over the KV cache of 1,000
	// prompt tokens, before the first token. Default 0.
	TransferPerThousandTokens time.Duration `flag:"transfer-per-thousand-tokens" help:"with --prefill-engines: time to hand over the KV cache of 1,000 prompt tokens"`
	// TransferInterference is the share of their decoding pace that the decode engines of a disaggregated group lose
	// while a KV cache is handed over, 0 to 1. 1 is an engine that stands still while it receives one. Default 0.
	TransferInterference float64 `most:"1" flag:"transfer-interference" help:"with --prefill-engines: <share> of their decoding speed that replicas lose while they receive a KV cache, from 0 to 1"`
	// PrefillFirst lets a disaggregated prefill engine take all waiting prompts before it hands over the KV caches of
	// the finished ones. These are handed over together, and the decode engines lose TransferInterference from the end
	// of the first prefill on. Default: each KV cache is handed over before the next prompt is taken.
	PrefillFirst bool `flag:"prefill-first" help:"with --prefill-engines: prefill waiting prompts before finished ones are transferred, which then go together"`
	// PrefillPerPrompt is the time that each prompt occupies its prefill engine in addition to the time for its tokens.
	// Default 0.
	PrefillPerPrompt time.Duration `flag:"prefill-per-prompt" help:"time that each prompt holds its prefill engine beside the time for its tokens"`
	// PrefillSharing lets prompts share the prefill engines by time slices: all prompts are in prefill at once, and
	// each gets its share. Default: each engine prefills one prompt at a time, first come, first served.
	PrefillSharing bool `flag:"prefill-sharing" help:"let prompts share the prefill by time slices (default: one at a time, in order)"`
	// Overhead is the time before each request is queued for prefill. It occupies nothing. Default 0.
	Overhead time.Duration `flag:"overhead" help:"time that each request takes beside prefill and decode, before its first token"`
	// PrefillJitter and StepJitter are the coefficients of variation of a lognormal factor with mean 1 on the time of
	// each prefill and of each decode step. The factor of a request's prefill depends only on Config.Seed and the
	// X-Request-Id. Default 0.
	PrefillJitter float64 `flag:"prefill-jitter" help:"<coefficient of variation> of a lognormal factor on the time of each prefill"`
	StepJitter    float64 `flag:"step-jitter" help:"<coefficient of variation> of a lognormal factor on the time of each decode step"`
	// StallShare is the chance that a decode step takes Stall longer. Default 0.
	StallShare float64       `most:"1" flag:"stall-share" help:"<share> of the decode steps that take --stall longer"`
	Stall      time.Duration `flag:"stall" help:"with --stall-share: how much longer"`
	// CacheBlocks is the size of each prefill engine's prefix cache, in blocks of CacheBlockTokens tokens (default 16).
	// 0, the default: there is no cache.
	CacheBlocks      int `group:"cache" flag:"cache-blocks" help:"<blocks> that an engine's prefix cache holds (default: no cache)"`
	CacheBlockTokens int `group:"cache" flag:"cache-block-tokens" help:"prompt <tokens> of each block"`
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
