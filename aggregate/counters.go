package aggregate

import (
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// counterCount is the number of counters.
const counterCount = 22

// counterNames are the protocol's names of the counters, in its order.
var counterNames = [counterCount]string{
	"started", "completed", "failed", "cancelled", "unmeasured_started", "unmeasured_ended", "input_tokens", "output_tokens",
	"token_frames", "tokens_arrived", "without_usage", "isl_missed", "osl_missed", "connections", "coalesced_reads",
	"unstamped_frames", "good", "cached_tokens", "with_cached_tokens", "shared_tokens", "unmeasured_tokens_arrived",
	"isl_compared",
}

// counterFields points at the counters of a message, in the protocol's order.
func counterFields(c *spatev1.Counters) [counterCount]*uint64 {
	return [counterCount]*uint64{
		&c.Started, &c.Completed, &c.Failed, &c.Cancelled, &c.UnmeasuredStarted, &c.UnmeasuredEnded, &c.InputTokens, &c.OutputTokens,
		&c.TokenFrames, &c.TokensArrived, &c.WithoutUsage, &c.IslMissed, &c.OslMissed, &c.Connections, &c.CoalescedReads,
		&c.UnstampedFrames, &c.Good, &c.CachedTokens, &c.WithCachedTokens, &c.SharedTokens, &c.UnmeasuredTokensArrived,
		&c.IslCompared,
	}
}

// countersOf returns the counters as an array, in the protocol's order. No message is no events.
func countersOf(c *spatev1.Counters) (counts [counterCount]uint64) {
	if c == nil {
		return counts
	}
	for i, field := range counterFields(c) {
		counts[i] = *field
	}
	return counts
}

// addCounters adds what one message counted to another.
func addCounters(to, from *spatev1.Counters) {
	counts := countersOf(from)
	for i, field := range counterFields(to) {
		*field += counts[i]
	}
}
