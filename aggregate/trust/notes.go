package trust

import (
	"fmt"

	"github.com/spate-load/spate/measure"
)

// notes returns what is worth knowing about the load but does not make the numbers doubtful.
func notes(e Evidence) []string {
	all := []string{}
	if words := lockStep(e); words != "" {
		all = append(all, words)
	}
	return all
}

// waves is the limit above which the starts of a closed loop count as waves: the standard deviation of the gaps between
// starts divided by their mean. It is 1 for random starts.
const waves = 2

// lockStep returns a note if a closed loop ran in lock-step, otherwise "". Outputs of one length end together, so the
// next requests start together. Then requests queue behind each other for their prefill, and TTFT is that of a wave.
// The burst at the start of a stage bunches the starts, too; with ten requests per slot, its effect is below the limit.
func lockStep(e Evidence) string {
	const fewest, rounds = 8, 4
	gap := e.Summaries[metricStartGap]
	if e.Closed == nil || !e.Ended || gap == nil || gap.Mean <= 0 || e.Closed.Concurrency < fewest ||
		e.Counts[measure.Started] < rounds*e.Closed.Concurrency {
		return ""
	}
	variation := gap.Std / gap.Mean
	if variation <= waves {
		return ""
	}
	return fmt.Sprintf("requests started in waves (variation of the gaps between starts %.1f, 1 is at random): TTFT is that of a queue behind each wave; "+
		"stagger spreads the first starts", variation)
}
