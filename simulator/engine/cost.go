package engine

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/spate-load/spate/simulator/config"
)

// costs computes how long an engine takes.
type costs struct{ config.Model }

// maxDuration keeps instants from overflowing if something takes practically forever.
const maxDuration = 365 * 24 * time.Hour

// nanoseconds rounds to a duration, at most longest.
func nanoseconds(ns float64) time.Duration {
	return time.Duration(math.Round(min(ns, float64(maxDuration))))
}

// stepNoise returns the random source of a decoder's jitter and stalls, or nil if it has neither.
func (m *costs) stepNoise(seed uint64, decoder int) *rand.Rand {
	if m.StepJitter == 0 && m.StallShare == 0 {
		return nil
	}
	return rand.New(rand.NewPCG(seed, uint64(decoder)))
}

// prefillWork returns the time of a sequence's prefill alone on an engine, with its jitter.
func (m *costs) prefillWork(s *Sequence) time.Duration {
	work := m.PrefillPerPrompt + m.prefillTime(s.Prompt-s.Cached)
	if m.PrefillJitter == 0 {
		return work
	}
	return nanoseconds(Lognormal(float64(work), m.PrefillJitter, s.Noise))
}

// prefillTime returns the time of a number of prompt tokens alone on an engine.
func (m *costs) prefillTime(tokens int) time.Duration {
	return nanoseconds(float64(tokens) / m.PrefillTokensPerSecond * float64(time.Second))
}

// transferTime returns the time to hand over a prompt's whole KV cache, whatever part of it came from the prefix cache.
func (m *costs) transferTime(tokens int) time.Duration {
	return nanoseconds(float64(tokens) / 1000 * float64(m.TransferPerThousandTokens))
}

// cachedTokens returns how many prompt tokens need no prefill if the cache has a number of the prompt's blocks. At
// least one token is always computed, because its logits give the first output token.
func (m *costs) cachedTokens(prompt, blocks int) int {
	if blocks == 0 {
		return 0
	}
	return min(blocks, (prompt-1)/m.CacheBlockTokens) * m.CacheBlockTokens
}

// Lognormal returns the lognormal number with a mean and a coefficient of variation v that corresponds to a standard
// normal number z: mean x exp(sigma z - sigma^2/2) with sigma^2 = ln(1+v^2) (Johnson, Kotz, Balakrishnan: Continuous
// Univariate Distributions 1, chapter 14).
func Lognormal(mean, v, z float64) float64 {
	variance := math.Log1p(v * v)
	return mean * math.Exp(math.Sqrt(variance)*z-variance/2)
}
