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
