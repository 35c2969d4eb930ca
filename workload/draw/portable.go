package draw

import (
	"math"
	"math/bits"
)

// This file has logarithms and exponentials with the same results on every machine.
//
// The library's are assembly on some processors and may use fused multiply-adds on others. Their results differ in the
// last bit, so two agents could have different schedules. Here products are converted to float64 before they are added,
// which forbids the compiler to fuse them (an assignment does not). Divisions and square roots are exactly rounded by
// IEEE 754.

// Exponential turns 64 random bits into -ln(1 - U), where U is their upper 53 bits as a fraction of 1.
func Exponential(random uint64) float64 {
	rest := uint64(1)<<53 - random>>11 // (1 - U) x 2^53: 1 to 2^53
	k := 54 - bits.Len64(rest)
	m, shift := reduced(math.Float64bits(float64(rest)))
	return float64(float64(k-shift)*math.Ln2) - logarithmNearOne(m)
}

// Log returns ln x. x must be positive and not subnormal.
func Log(x float64) float64 {
	b := math.Float64bits(x)
	k := int(b>>52) - 1023
	m, shift := reduced(b)
	return float64(float64(k+shift)*math.Ln2) + logarithmNearOne(m)
}

// reduced returns the mantissa of a float's bits, scaled to 1/sqrt(2) to sqrt(2), and 1 if it was halved for that.
func reduced(b uint64) (mantissa float64, halved int) {
	m := math.Float64frombits(b&(1<<52-1) | 1023<<52) // 1 to 2
	if m > math.Sqrt2 {
		return m / 2, 1
	}
	return m, 0
}

// logarithmNearOne returns ln m = 2 atanh(s), s = (m-1)/(m+1), for m from 1/sqrt(2) to sqrt(2). Since |s| < 0.172,
// terms beyond s^21 are below the last bit.
func logarithmNearOne(m float64) float64 {
	s := (m - 1) / (m + 1)
	return float64(2 * s * series(s*s))
}

// series returns atanh(s)/s for z = s^2: 1 + z/3 + z^2/5 and so on to z^10/21. Even and odd powers are summed
// separately, which a processor does in parallel.
func series(z float64) float64 {
	y := z * z
	even := float64(y*(1.0/21)) + 1.0/17
	even = float64(even*y) + 1.0/13
	even = float64(even*y) + 1.0/9
	even = float64(even*y) + 1.0/5
	even = float64(even*y) + 1
	odd := float64(y*(1.0/19)) + 1.0/15
	odd = float64(odd*y) + 1.0/11
	odd = float64(odd*y) + 1.0/7
	odd = float64(odd*y) + 1.0/3
	return even + float64(odd*z)
}

// Exp returns e^x for x up to 700. Below -700 it returns 0.
//
// e^x = 2^k e^r, where k is the whole number nearest to x/ln 2 and |r| < 0.347. e^r = 1 + r + r^2/2! and so on to
// r^13/13!; later terms are below the last bit. k ln 2 is subtracted in two parts, so that the first product has no
// rounding error.
func Exp(x float64) float64 {
	const (
		most    = 700
		ln2High = 0x1.62e42feep-1 // 32 bits
		ln2Low  = math.Ln2 - ln2High
	)
	if x < -most {
		return 0
	}
	k := math.Floor(float64(x*(1/math.Ln2)) + 0.5)
	r := x - float64(k*ln2High) - float64(k*ln2Low)
	y := r * r
	even := float64(y*(1.0/479001600)) + 1.0/3628800
	even = float64(even*y) + 1.0/40320
	even = float64(even*y) + 1.0/720
	even = float64(even*y) + 1.0/24
	even = float64(even*y) + 1.0/2
	odd := float64(y*(1.0/6227020800)) + 1.0/39916800
	odd = float64(odd*y) + 1.0/362880
	odd = float64(odd*y) + 1.0/5040
	odd = float64(odd*y) + 1.0/120
	odd = float64(odd*y) + 1.0/6
	odd = float64(odd*y) + 1
	sum := float64(even*y) + float64(odd*r) + 1
	return sum * math.Float64frombits(uint64(int64(k)+1023)<<52)
}
