package arrival

import (
	"math"
	"math/bits"
	"time"

	"github.com/spate-load/spate/workload/draw"
)

// poisson spaces arrivals by independent exponential gaps: gap i is -ln(1 - U_i) / rate, with U_i number i of the seed's
// sequence.
//
// Arrival i is at the sum of gaps 0 to i. The first one is therefore a whole gap after the start, as it must be: a Poisson
// process has no memory, so the time from any instant, the start too, to the next arrival has the same exponential
// distribution as a gap.
//
// The sum is kept in whole 2^-32 of a nanosecond: it is exact, so no error adds up and none depends on how far it has come.
// Each gap is worked out in floats by steps that every processor rounds alike (see exponential), so agents on different
// machines have the same schedule to the nanosecond.
type poisson struct {
	gaps     draw.Sequence
	rate     float64
	index    uint64
	ns       uint64
	fraction uint64 // in 2^-32 ns
}

// newPoisson takes a rate above 0 and at most maxRate.
func newPoisson(rate float64, seed uint64) *poisson {
	return &poisson{gaps: draw.New(seed, "arrivals"), rate: rate}
}

// next returns the offset of the next arrival.
func (p *poisson) next() (time.Duration, bool) {
	const beyond = 1 << 62 // ns: 146 years
	gap := exponential(p.gaps.At(p.index)) * float64(time.Second) / p.rate
	p.index++
	if !(gap < beyond) {
		return 0, false
	}
	whole := uint64(gap)
	p.fraction += uint64((gap - float64(whole)) * (1 << 32))
	p.ns += whole + p.fraction>>32
	p.fraction &= 1<<32 - 1
	return time.Duration(p.ns + p.fraction>>31), p.ns < beyond
}

// exponential turns 64 random bits into -ln(1 - U), U being their upper 53 as a fraction of 1.
//
// The library's logarithm is assembly on some processors and may be fused multiply-adds on others, with results that differ
// in the last bit. This one is the same everywhere: products are rounded by conversion before they are added, which forbids
// the compiler to fuse them. 1 - U = m x 2^-k with m from 1/sqrt(2) to sqrt(2), and ln m = 2 atanh(s), s = (m-1)/(m+1), |s|
// < 0.172, by its power series to s^21, beyond which terms are below the last bit.
func exponential(random uint64) float64 {
	rest := uint64(1)<<53 - random>>11 // (1 - U) x 2^53: 1 to 2^53
	k := 54 - bits.Len64(rest)
	m := math.Float64frombits(math.Float64bits(float64(rest))&(1<<52-1) | 1023<<52) // 1 to 2
	if m > math.Sqrt2 {
		m /= 2
		k--
	}
	s := (m - 1) / (m + 1)
	return float64(float64(k)*math.Ln2) - float64(2*s*series(s*s))
}

// series returns atanh(s)/s for z = s^2: 1 + z/3 + z^2/5 and so on to z^10/21. The even and the odd powers are summed side
// by side, which a processor does at once.
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
