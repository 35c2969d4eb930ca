package lifecycle

import "math"

// SteadyWindows is how many whole windows steadiness is judged by.
const SteadyWindows = 10

const (
	// steadyDrift is the largest difference between the means of the later and the earlier half.
	steadyDrift = 0.05
	// steadySpread is the largest coefficient of variation of all.
	steadySpread = 0.5
)

// steady says whether a throughput, given window by window, has come to its level: of the last ten windows the mean of
// the later five is within 5 % of the mean of the earlier five, and the standard deviation of all ten is at most half
// their mean. The first catches a ramp, the second a load that comes in bursts or has hardly begun, whose halves are
// alike by chance only.
//
// A drift slower than 1 % a second is taken for steady, and of a load with few requests in flight, whose throughput
// differs much from second to second, it takes chance to find two halves alike: both are why such a warm-up has a
// longest duration.
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

// mean is the arithmetic mean.
func mean(windows []uint64) float64 {
	sum := uint64(0)
	for _, w := range windows {
		sum += w
	}
	return float64(sum) / float64(len(windows))
}
