package recorder

import (
	"time"

	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// SLO is what a request has to keep to be good. A limit of 0 asks for nothing.
type SLO struct {
	// Longest time to the first token, per token after it, and to the last token.
	TTFT, TPOT, E2E time.Duration
}

// SLOOf reads a stage's SLO, which may be nil.
func SLOOf(s *spatev1.SLO) SLO {
	return SLO{TTFT: s.GetTtft().AsDuration(), TPOT: s.GetTpot().AsDuration(), E2E: s.GetE2E().AsDuration()}
}

// kept says whether a completed request is good. Limits are inclusive. One of less than two tokens has no TPOT and
// keeps that limit. The first token of an answer that is one body comes with its last, for whoever waits for it.
func (s SLO) kept(o *stream.Observation) bool {
	return s != SLO{} &&
		within(o.FirstToken.Sub(o.Start).Nanoseconds(), s.TTFT) &&
		within(o.LastToken.Sub(o.Start).Nanoseconds(), s.E2E) &&
		(o.OutputTokens < 2 || within(perToken(o.LastToken.Sub(o.FirstToken), o.OutputTokens), s.TPOT))
}

// within says whether a time in nanoseconds keeps a limit.
func within(ns int64, limit time.Duration) bool { return limit == 0 || ns <= limit.Nanoseconds() }
