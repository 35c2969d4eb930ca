package ready

import (
	"fmt"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// CheckRate returns an error if an open loop's stripe starts more requests per second, on average, than the agent may.
// rate is the highest rate of all agents together; 0: not known.
func (l Limits) CheckRate(rate float64, stripe *spatev1.Stripe) error {
	if own := rate * largestPart(stripe); l.MaxRate > 0 && own > l.MaxRate {
		return fmt.Errorf("the stripe has up to %.6g requests per second (%.6g over all agents), this agent's "+
			"limit is %.6g: raise its max rate, lower its weight or add agents", own, rate, l.MaxRate)
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
