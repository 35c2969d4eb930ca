package agent

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// checkRate returns an error if an open loop's stripe starts more requests per second, on average, than the agent may.
// rate is the highest rate of all agents together; 0: not known.
func (l limits) checkRate(rate float64, stripe *spatev1.Stripe) error {
	if own := rate * largestPart(stripe); l.maxRate > 0 && own > l.maxRate {
		return fmt.Errorf("the stripe has up to %.6g requests per second (%.6g over all agents), this agent's "+
			"limit is %.6g: raise its max rate, lower its weight or add agents", own, rate, l.maxRate)
	}
	return nil
}

// largestPart returns the largest part, from 0 to 1, of all arrivals that the agent's rank has at any time, as the
// stripe's handovers come into effect one after the other.
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

// handOver returns the parts after a handover. It changes parts in place.
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

// partsOf returns weights as fractions of their sum.
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

// rateCheck counts the requests that a load starts in each whole second of its stage. It is for loads whose schedule
// does not tell: closed loops and replays. The zero value allows any number. It is safe for concurrent use.
type rateCheck struct {
	max float64 // requests in a second; 0: no limit

	// The upper 32 bits hold the second, the lower 32 bits its requests.
	seconds atomic.Uint64
}

// countStart counts a request that starts that long after the stage's start, and returns why the load must end, or "".
// It returns a reason at most once a second.
func (c *rateCheck) countStart(since time.Duration) string {
	if c.max == 0 {
		return ""
	}
	second := uint64(max(since, 0) / time.Second)
	for {
		held := c.seconds.Load()
		next := second<<32 + 1
		if held>>32 >= second { // a goroutine that was delayed counts in the current second
			next = held + 1
		}
		if !c.seconds.CompareAndSwap(held, next) {
			continue
		}
		if n := float64(next & (1<<32 - 1)); n > c.max && n-1 <= c.max {
			return fmt.Sprintf("this agent started more requests in second %d than its limit of %.6g per second: "+
				"raise its max rate, lower the load or add agents", next>>32, c.max)
		}
		return ""
	}
}

// countInSecond counts a request that starts, and ends the load if a second has more of them than the agent may start.
func (l *load) countInSecond(at clock.Instant) {
	if why := l.rateCheck.countStart(at.Sub(l.start)); why != "" {
		l.fail(spatev1.FailureKind_FAILURE_KIND_AGENT, false, why)
	}
}
