//go:build !race

package schedule

import (
	"math"
	"testing"
)

// The tests in this file draw millions of arrivals in one goroutine. The race detector would take minutes and find
// nothing.

// TestIndexOfDispersion: the index of dispersion of a renewal process's counts in long windows is the variance of its
// gaps: 1 for Poisson, 1/k for gamma, 0 for constant gaps. With n windows the index has a relative standard deviation
// of sqrt(2/n). Four standard deviations are allowed, plus the bias of windows of w expected arrivals, of the order of
// (1 + 1/k^2) / w.
func TestIndexOfDispersion(t *testing.T) {
	const windows, window = 1000, 40
	for name, p := range processes() {
		for seed := range uint64(1) {
			points := p.arrivals(t, seed, windows*window*11/10, unequal(10))
			got, mean := dispersion(points, window, windows)
			slack := 4*math.Sqrt(2.0/windows)*p.dispersion + (1+p.dispersion*p.dispersion)/window
			if math.Abs(got-p.dispersion) > slack {
				t.Errorf("%s, seed %d: index of dispersion %.3f, want %.3f +- %.3f", name, seed, got,
					p.dispersion, slack)
			}
			if slack := 4*math.Sqrt(p.dispersion*window/windows) + 1.0/windows; math.Abs(mean-window) > slack {
				t.Errorf("%s, seed %d: %.2f arrivals a window, want %v +- %.2f", name, seed, mean, window, slack)
			}
		}
	}
}

// TestGapDistribution is a Kolmogorov-Smirnov test of the gaps against their exact distribution. The gaps of ramps are
// measured in expected arrivals, so that they have one distribution.
func TestGapDistribution(t *testing.T) {
	for name, p := range processes() {
		for seed := range uint64(3) {
			points := p.arrivals(t, seed, 20_000, unequal(10))
			if p.load.GetArrival() == "constant" {
				for i, u := range points {
					if math.Abs(u-float64(i)) > 1e-7 {
						t.Fatalf("%s: arrival %d at %v expected ones", name, i, u)
					}
				}
				continue
			}
			if d := kolmogorovSmirnov(points, p.cdf); d > significant {
				t.Errorf("%s, seed %d: distance %.2f, at most %.2f", name, seed, d, significant)
			}
		}
	}
}
