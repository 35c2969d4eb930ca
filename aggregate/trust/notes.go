package trust

import "github.com/spate-load/spate/measure"

// notes returns what is worth knowing about the load but does not make the numbers doubtful. Stages with the same note
// have the same words, so that reports can name the stages together.
func notes(e Evidence) []string {
	all := []string{}
	if inWaves(e) {
		all = append(all, wavesNote)
	}
	return all
}

const (
	// waves is the limit above which the starts of a closed loop count as waves: the standard deviation of the gaps
	// between starts divided by their mean. It is 1 for random starts.
	waves     = 2
	wavesNote = "requests started in waves: answers of equal length end together, so the next requests start " +
		"together, and their TTFT includes waiting for each other's prefill; " +
		"to spread the starts, set stagger in the load"
)

// inWaves reports whether a closed loop ran in lock-step. Outputs of one length end together, so the next requests
// start together. Then requests queue behind each other for their prefill, and TTFT is that of a wave. The burst at the
// start of a stage bunches the starts, too; with ten requests per slot, its effect is below the limit.
func inWaves(e Evidence) bool {
	const fewest, rounds = 8, 4
	gap := e.Summaries[metricStartGap]
	if e.Closed == nil || !e.Ended || gap == nil || gap.Mean <= 0 || e.Closed.Concurrency < fewest ||
		e.Counts[measure.Started] < rounds*e.Closed.Concurrency {
		return false
	}
	return gap.Std/gap.Mean > waves
}
