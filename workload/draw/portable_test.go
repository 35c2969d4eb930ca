package draw

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestExponentialIsTheLogarithm compares with the library over the whole range, including its ends and the seams of the
// reduction.
func TestExponentialIsTheLogarithm(t *testing.T) {
	randoms := []uint64{0, 1 << 11, math.MaxUint64, 1 << 63, 1<<63 - 1, 1 << 62, 3 << 62}
	for i := range uint64(20_000) {
		randoms = append(randoms, i*0x9e3779b97f4a7c15, ^(i << 11), i<<11)
	}
	for _, r := range randoms {
		u := float64(r>>11) / (1 << 53)
		want := -math.Log1p(-u)
		if got := Exponential(r); math.Abs(got-want) > 1e-15*want {
			t.Fatalf("-ln(1-%v) is %v, want %v", u, got, want)
		}
	}
}

// TestAgainstTheLibrary compares with the library at all magnitudes and near the seams.
func TestAgainstTheLibrary(t *testing.T) {
	near := func(got, want, relative float64) bool { return math.Abs(got-want) <= relative*math.Abs(want) }
	rapid.Check(t, func(t *rapid.T) {
		magnitude := rapid.Float64Range(-300, 300).Draw(t, "magnitude")
		x := math.Pow(10, magnitude)
		if got, want := Log(x), math.Log(x); !near(got, want, 1e-15) {
			t.Fatalf("ln %v is %v, want %v", x, got, want)
		}
		one := 1 + rapid.Float64Range(-0.5, 0.5).Draw(t, "near 1")
		if got, want := Log(one), math.Log(one); !near(got, want, 1e-15) {
			t.Fatalf("ln %v is %v, want %v", one, got, want)
		}
		y := rapid.OneOf(rapid.Float64Range(-700, 700), rapid.Float64Range(-1, 1)).Draw(t, "exponent")
		if got, want := Exp(y), math.Exp(y); !near(got, want, 4e-16*(1+math.Abs(y))) {
			t.Fatalf("e^%v is %v, want %v", y, got, want)
		}
	})
	for x, want := range map[float64]float64{0: 1, math.Copysign(0, -1): 1, -701: 0, math.Inf(-1): 0} {
		if got := Exp(x); got != want {
			t.Errorf("e^%v is %v, want %v", x, got, want)
		}
	}
}
