package ready

import (
	"fmt"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// exceedsCapacity says how the stage exceeds what calibration found that this machine measures exactly, or returns "".
// Only streams and starts are compared: frames per second are not known before the load runs.
func (s *Stage) exceedsCapacity(c *spatev1.Capacity) string {
	if s.Closed != nil {
		if slots := s.Closed.Slots(); c.GetStreams() > 0 && slots > int(c.GetStreams()) {
			return fmt.Sprintf("was exact up to %d streams when it was calibrated, and this stage gives it %d",
				c.GetStreams(), slots)
		}
		return ""
	}
	if rate := s.Assigned.GetLoad().GetRate() * largestPart(s.Stripe); c.GetStartsPerSecond() > 0 &&
		rate > c.GetStartsPerSecond() {
		return fmt.Sprintf("was exact up to %.6g starts/s when it was calibrated, and this stage gives it up to %.6g",
			c.GetStartsPerSecond(), rate)
	}
	return ""
}

// bytesPerToken is what a token of a prompt in flight takes: 40 requests of 1,000,000 tokens took 435 MB.
const bytesPerToken = 11

// checkMemory returns an error if the prompts of the stage's requests in flight, as long as its first ones are, would
// take more than the given memory. 0: it is not known. A load that sets no limit on its requests in flight gets one.
func (s *Stage) checkMemory(memory uint64) error {
	each := s.promptTokens() * bytesPerToken * max(1, float64(s.limits.AgentsInProcess))
	if memory == 0 || each == 0 {
		return nil
	}
	streams := s.MaxStreams
	if s.Closed != nil {
		streams = s.Closed.Slots()
	} else if s.Assigned.GetLoad().GetMaxInFlight() == 0 {
		s.MaxStreams = int(max(1, min(float64(streams), float64(memory)/each)))
		return nil
	}
	if need := float64(streams) * each; need > float64(memory) {
		return fmt.Errorf("the stripe has up to %d requests in flight%s, and their prompts take some %.0f MiB, more than the "+
			"%d MiB of memory that this process may have: add agents on other machines, lower the load, or make prompts shorter",
			streams, s.limits.otherAgents(), need/(1<<20), memory>>20)
	}
	return nil
}

// promptTokens returns the mean length of the prompts of the first arrivals, of each the last turn. 0: not known.
func (s *Stage) promptTokens() (mean float64) {
	const most = 100
	for i := range uint64(most) {
		spec, err := s.Content.Spec(i, 0)
		if err == nil && spec.Turns > 1 {
			spec, err = s.Content.Spec(i, spec.Turns-1)
		}
		if err != nil {
			return 0
		}
		mean += float64(spec.ISL) * float64(max(spec.Texts, 1))
	}
	return mean / most
}
