package ready

import (
	"fmt"

	"google.golang.org/protobuf/proto"

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

// noteCapacity adds a note to a copy of found if the stage exceeds the machine's capacity. It copies because other
// agents and stages share found.
func noteCapacity(found *spatev1.Preparation, exceeds, name string) *spatev1.Preparation {
	if exceeds == "" {
		return found
	}
	found = proto.CloneOf(found)
	found.Notes = append(found.Notes,
		fmt.Sprintf("The machine of agent %s %s: its times may be less exact; add agents.", name, exceeds))
	return found
}
