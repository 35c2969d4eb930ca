package trust

import "fmt"

// notes say what is worth knowing about the load and is no reason to doubt the numbers.
func notes(e Evidence) []string {
	all := []string{}
	if words := lockStep(e); words != "" {
		all = append(all, words)
	}
	return all
}

// waves is how far beyond chance the starts of a closed loop must be bunched to be called waves: their gaps' standard
// deviation over their mean, which is 1 for starts at random.
const waves = 2

// lockStep says that a closed loop went in lock-step: outputs of one length end together, so that the next requests
// start together. Then requests queue behind each other for their prefill, and TTFT is that of waves. The burst at the
// begin of a stage bunches the starts too; with ten requests a slot it comes to less than waves.
func lockStep(e Evidence) string {
	const fewest, rounds = 8, 4
	if e.Closed == nil || !e.Ended || e.StartGap == nil || e.StartGap.Mean <= 0 || e.Closed.Concurrency < fewest ||
		e.Requests.Started < rounds*e.Closed.Concurrency {
		return ""
	}
	variation := e.StartGap.Std / e.StartGap.Mean
	if variation <= waves {
		return ""
	}
	return fmt.Sprintf("requests started in waves (variation of the gaps between starts %.1f, 1 is at random): TTFT is that of a queue behind each wave; "+
		"stagger spreads the first starts", variation)
}
