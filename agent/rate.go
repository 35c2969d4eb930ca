package agent

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// checkRate returns an error if a share of an open loop begins more requests per second, on average, than the agent
// takes on. rate is that of all agents at its highest, 0 if it is not known.
func (l limits) checkRate(rate float64, stripe *spatev1.Stripe) error {
	if own := rate * largestPart(stripe); l.maxRate > 0 && own > l.maxRate {
		return fmt.Errorf("the share has up to %.6g requests per second (%.6g over all agents), this agent takes on %.6g: raise its max rate, "+
			"lower its weight or add agents", own, rate, l.maxRate)
	}
	return nil
}

// largestPart is the largest part, from 0 to 1, of the arrivals that a place ever has while its stripe's handovers come
// to apply one after the other.
func largestPart(s *spatev1.Stripe) float64 {
	parts := partsOf(s.GetWeights())
	own := func() float64 {
		if int(s.GetRank()) < len(parts) {
			return parts[s.GetRank()]
		}
		return 0
	}
	most := own()
	for _, h := range s.GetHandovers() {
		parts = handOver(parts, h)
		most = max(most, own())
	}
	return most
}

// handOver returns the parts after a handover.
func handOver(parts []float64, h *spatev1.Handover) []float64 {
	if int(h.GetFromRank()) >= len(parts) {
		return parts
	}
	given := parts[h.GetFromRank()]
	parts[h.GetFromRank()] = 0
	for p, part := range partsOf(h.GetWeights()) {
		for len(parts) <= p {
			parts = append(parts, 0)
		}
		parts[p] += given * part
	}
	return parts
}

// partsOf are weights as parts of their sum.
func partsOf(weights []uint32) []float64 {
	var sum float64
	for _, w := range weights {
		sum += float64(w)
	}
	parts := make([]float64, len(weights))
	for i, w := range weights {
		if w > 0 {
			parts[i] = float64(w) / sum
		}
	}
	return parts
}

// pace counts the requests that a load begins in each whole second of its stage, of loads whose schedule does not tell:
// closed loops and replays. The zero value allows any number. It is safe for concurrent use.
type pace struct {
	most float64 // requests in a second; 0: not limited

	// The second in the upper 32 bits, its requests in the lower.
	seconds atomic.Uint64
}

// begin counts a request, begun so long after the start, and returns why the load is to end, or "". That is said once a
// second.
func (p *pace) begin(since time.Duration) string {
	if p.most == 0 {
		return ""
	}
	second := uint64(max(since, 0) / time.Second)
	for {
		held := p.seconds.Load()
		next := second<<32 + 1
		if held>>32 >= second { // a goroutine that was held up counts in the present second
			next = held + 1
		}
		if !p.seconds.CompareAndSwap(held, next) {
			continue
		}
		if n := float64(next & (1<<32 - 1)); n > p.most && n-1 <= p.most {
			return fmt.Sprintf("the share began more requests in second %d than the %.6g per second that this agent takes on: raise its max "+
				"rate, lower the load or add agents", next>>32, p.most)
		}
		return ""
	}
}

// paced counts a request that begins, and ends the load if there are more in a second than the agent takes on.
func (l *load) paced(at clock.Instant) {
	if why := l.pace.begin(at.Sub(l.start)); why != "" {
		l.fail(spatev1.FailureKind_FAILURE_KIND_AGENT, false, why)
	}
}
