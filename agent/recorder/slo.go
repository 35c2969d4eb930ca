package recorder

import (
	"time"

	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// SLO holds the limits that a good request must keep. A limit of 0 does not apply.
type SLO struct {
	// Longest time to the first token, per token after the first, and to the last token.
	TTFT, TPOT, E2E time.Duration
}

// SLOsOf converts SLOs. Nil has no limits.
func SLOsOf(all []*spatev1.SLO) (slos []SLO) {
	for _, s := range all {
		slos = append(slos,
			SLO{TTFT: s.GetTtft().AsDuration(), TPOT: s.GetTpot().AsDuration(), E2E: s.GetE2E().AsDuration()})
	}
	return slos
}

// kept reports whether a completed request is good. Limits are inclusive. A request of fewer than two tokens has no
// TPOT and keeps that limit. If the answer is one body, its first token comes with its last.
func (s SLO) kept(o *stream.Observation) bool {
	return s != SLO{} &&
		within(o.FirstToken.Sub(o.Start).Nanoseconds(), s.TTFT) &&
		within(o.LastToken.Sub(o.Start).Nanoseconds(), s.E2E) &&
		(o.OutputTokens < 2 || within(perToken(o.LastToken.Sub(o.FirstToken), o.OutputTokens), s.TPOT))
}

// within reports whether a time in nanoseconds keeps a limit.
func within(ns int64, limit time.Duration) bool { return limit == 0 || ns <= limit.Nanoseconds() }
