package arrival

import (
	"math"
	"slices"
	"testing"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// TestExponentialIsTheLogarithm compares with the library over the whole range, the ends and the seams of the reduction
// among it.
func TestExponentialIsTheLogarithm(t *testing.T) {
	randoms := []uint64{0, 1 << 11, math.MaxUint64, 1 << 63, 1<<63 - 1, 1 << 62, 3 << 62}
	for i := range uint64(20_000) {
		randoms = append(randoms, i*0x9e3779b97f4a7c15, ^(i << 11), i<<11)
	}
	for _, r := range randoms {
		u := float64(r>>11) / (1 << 53)
		want := -math.Log1p(-u)
		if got := exponential(r); math.Abs(got-want) > 1e-15*want {
			t.Fatalf("-ln(1-%v) is %v, want %v", u, got, want)
		}
	}
}

// TestPoissonIsPinned: the schedule of a seed is part of what makes a run repeatable, by later versions and on other
// processors.
func TestPoissonIsPinned(t *testing.T) {
	load := &spatev1.LoadPoint{Rate: 100, Arrival: "poisson", Requests: 5}
	want := []time.Duration{11266448, 13198576, 14094923, 19352274, 23261849} // worked out with 60 digits
	for i, a := range drain(t, load, 42, whole) {
		if a.Offset != want[i] {
			t.Errorf("arrival %d at %d, want %d", i, a.Offset, want[i])
		}
	}
}

// poissonOffsets returns the merged schedule of 10 unequal agents.
func poissonOffsets(t *testing.T, seed, requests uint64, rate float64) []time.Duration {
	stripes, err := Split([]uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	if err != nil {
		t.Fatal(err)
	}
	var offsets []time.Duration
	for _, s := range stripes {
		for _, a := range drain(t, &spatev1.LoadPoint{Rate: rate, Arrival: "poisson", Requests: requests}, seed, s) {
			offsets = append(offsets, a.Offset)
		}
	}
	slices.Sort(offsets)
	return offsets
}

// TestIndexOfDispersion: counts of a Poisson process in equal windows have a variance equal to their mean. With n windows
// the quotient has a standard deviation of sqrt(2/n); four of them are allowed. Agents that each drew the same sequence
// would come to 10.
func TestIndexOfDispersion(t *testing.T) {
	const windows, rate = 2000, 50.0
	for seed := range uint64(5) {
		counts := make([]float64, windows)
		for _, at := range poissonOffsets(t, seed, windows*rate*11/10, rate) {
			if i := int(at / time.Second); i < windows {
				counts[i]++
			}
		}
		var sum, squares float64
		for _, c := range counts {
			sum += c
			squares += c * c
		}
		mean := sum / windows
		dispersion := (squares/windows - mean*mean) / mean
		if slack := 4 * math.Sqrt(2.0/windows); math.Abs(dispersion-1) > slack {
			t.Errorf("seed %d: index of dispersion %.3f, want 1 +- %.3f", seed, dispersion, slack)
		}
		if slack := 4 * math.Sqrt(rate/windows); math.Abs(mean-rate) > slack {
			t.Errorf("seed %d: %.2f arrivals a second, want %v +- %.2f", seed, mean, rate, slack)
		}
	}
}

// TestGapsAreExponential is a Kolmogorov-Smirnov test: the largest distance between the gaps' distribution and the
// exponential one stays below 1.95/sqrt(n), which chance exceeds once in a thousand times. The seeds are fixed, so it is the
// same each time.
func TestGapsAreExponential(t *testing.T) {
	const n, rate = 20_000, 300.0
	for seed := range uint64(5) {
		offsets := poissonOffsets(t, seed, n, rate)
		gaps := make([]float64, n)
		last := time.Duration(0)
		for i, at := range offsets {
			gaps[i], last = (at - last).Seconds(), at
		}
		slices.Sort(gaps)
		var distance float64
		for i, g := range gaps {
			f := 1 - math.Exp(-rate*g)
			distance = max(distance, f-float64(i)/n, float64(i+1)/n-f)
		}
		if bound := 1.95 / math.Sqrt(n); distance > bound {
			t.Errorf("seed %d: distance %.4f, at most %.4f", seed, distance, bound)
		}
	}
}

// TestGapsAreIndependent: the correlation of each gap with the next is within four standard deviations of none.
func TestGapsAreIndependent(t *testing.T) {
	const n, rate = 20_000, 300.0
	for seed := range uint64(5) {
		offsets := poissonOffsets(t, seed, n, rate)
		var product, before float64
		last := time.Duration(0)
		for _, at := range offsets {
			gap := (at-last).Seconds()*rate - 1
			product += gap * before
			before, last = gap, at
		}
		if r, slack := product/n, 4/math.Sqrt(n); math.Abs(r) > slack {
			t.Errorf("seed %d: correlation %.4f, want 0 +- %.4f", seed, r, slack)
		}
	}
}
