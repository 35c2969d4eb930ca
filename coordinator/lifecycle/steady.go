package lifecycle

import "math"

// SteadyWindows is the number of whole windows by which steadiness is judged.
const SteadyWindows = 10

const (
	// steadyDrift is the largest difference between the means of the two halves, relative to the earlier one.
	steadyDrift = 0.05
	// steadySpread is the largest coefficient of variation of all windows.
	steadySpread = 0.5
)

// steady reports whether a throughput, given window by window, has reached its level. Of the last ten windows, the mean
// of the later five must be within 5 % of the mean of the earlier five, and the standard deviation of all ten at most
// half their mean. The first condition catches a ramp. The second catches a load that comes in bursts or has hardly
// begun, whose halves are alike only by chance.
//
// A drift slower than 1 % a second counts as steady. With few requests in flight, throughput varies much from second to
// second, and two halves are alike only by chance. For both reasons such a warm-up has a longest duration.
func steady(windows []uint64) bool {
	if len(windows) < SteadyWindows {
		return false
	}
	windows = windows[len(windows)-SteadyWindows:]
	earlier, later := mean(windows[:SteadyWindows/2]), mean(windows[SteadyWindows/2:])
	whole := (earlier + later) / 2
	if earlier == 0 || math.Abs(later-earlier) > steadyDrift*earlier {
		return false
	}
	squares := 0.0
	for _, w := range windows {
		squares += (float64(w) - whole) * (float64(w) - whole)
	}
	return math.Sqrt(squares/SteadyWindows) <= steadySpread*whole
}

// mean returns the arithmetic mean.
func mean(windows []uint64) float64 {
	sum := uint64(0)
	for _, w := range windows {
		sum += w
	}
	return float64(sum) / float64(len(windows))
}
