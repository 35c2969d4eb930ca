package lifecycle

import (
	"math"
	"math/rand/v2"
	"testing"
)

// firstSteady feeds a throughput window by window and returns the number of windows after which it counts as steady, 0
// if it never does.
func firstSteady(seconds int, at func(second float64) float64) int {
	var windows []uint64
	for i := range seconds {
		windows = append(windows, uint64(max(0, at(float64(i)))))
		if steady(windows) {
			return len(windows)
		}
	}
	return 0
}

func TestSteady(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noisy := func(level, spread float64) float64 { return level * (1 + spread*random.NormFloat64()) }
	for _, c := range []struct {
		name        string
		from, until int // 0: never
		at          func(float64) float64
	}{
		{"constant", 10, 10, func(float64) float64 { return 1000 }},
		{"nothing comes", 0, 0, func(float64) float64 { return 0 }},
		{"a ramp never is", 0, 0, func(s float64) float64 { return 100 * min(s, 90) }},
		{"a ramp of 30 s, then level", 36, 40, func(s float64) float64 { return 100 * min(s, 30) }},
		{"an exponential approach, time constant 10 s", 20, 40,
			func(s float64) float64 { return 1000 * (1 - math.Exp(-s/10)) }},
		{"the same with 5 % noise", 18, 45, func(s float64) float64 { return noisy(1000*(1-math.Exp(-s/10)), 0.05) }},
		{"a level with 10 % noise", 10, 20, func(float64) float64 { return noisy(1000, 0.1) }},
		{"a fall", 0, 0, func(s float64) float64 { return 1000 * math.Exp(-s/20) }},
		{"bursts of one second in five", 0, 0,
			func(s float64) float64 { return map[bool]float64{true: 5000}[int(s)%5 == 0] }},
	} {
		seconds := 60
		got := firstSteady(seconds, c.at)
		if got < c.from || got > c.until {
			t.Errorf("%s: steady after %d windows, want %d to %d", c.name, got, c.from, c.until)
		}
	}
}
