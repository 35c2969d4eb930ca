package trust

import (
	"fmt"

	"github.com/spate-load/spate/measure"
)

// notes returns what is worth knowing about the load but does not make the numbers doubtful. Stages with the same note
// have the same words, so that reports can name the stages together.
func notes(e Evidence) []string {
	all := []string{}
	if inWaves(e) {
		all = append(all, wavesNote)
	}
	if held := heldBack(e); held != "" {
		all = append(all, held)
	}
	if n := e.Counts[measure.Reconnected]; n > 0 {
		all = append(all, fmt.Sprintf("%d of %d requests were sent once more, on a new connection, because the server closed "+
			"a kept one before it answered; their times count from the first try: to avoid that, raise the server's "+
			"keep-alive timeout, or set connection: {reuse: new}", n, e.Counts[measure.Started]))
	}
	if late := e.Summaries[metricLateEnd]; late != nil {
		all = append(all, fmt.Sprintf("%d of %d responses ended late, %.4g ms after their last event in the median and %.4g ms at "+
			"most: no number includes that time, and it delayed no request", e.Counts[measure.LateEnds],
			e.Counts[measure.Started], late.P50, late.Max))
	}
	return all
}

// heldBack says what max_in_flight held back and for how long, or returns "" if it held nothing back.
func heldBack(e Evidence) string {
	held, unsent := e.Summaries[metricHeld], uint64(0)
	if e.NeverSent != nil {
		unsent = *e.NeverSent - e.afterFailure()
	}
	if e.MaxInFlight == 0 || held == nil && unsent == 0 {
		return ""
	}
	words := fmt.Sprintf("max_in_flight %d held back", e.MaxInFlight)
	if held != nil {
		words += fmt.Sprintf(" %d of %d requests, for %.4g s on average and %.4g s at most", held.Count,
			e.Counts[measure.Started], held.Mean/msPerSecond, held.Max/msPerSecond)
	}
	if unsent > 0 {
		if held != nil {
			words += ", and"
		}
		words += fmt.Sprintf(" %d until the end, which were never sent", unsent)
	}
	return words + ": latencies count from when a request was sent, those from the schedule from when it was due"
}

// msPerSecond is the number of milliseconds, the unit of summaries of times, in a second.
const msPerSecond = 1000

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
