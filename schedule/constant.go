package schedule

import (
	"math"
	"math/bits"
	"time"
)

// constant spaces arrivals evenly: arrival i is at i/rate.
//
// A float rate is an exact fraction m / 2^s, so i/rate in nanoseconds is i x 10^9 x 2^s / m. This is computed in
// integers for each i separately and rounded once, to the nearest nanosecond, so errors do not accumulate.
type constant struct {
	divisor uint64 // m
	shift   int    // s
	index   uint64
}

// newConstant returns the process of a rate, which must be above 0 and at most maxRate.
func newConstant(rate float64) *constant {
	const mantissa = 53
	fraction, exponent := math.Frexp(rate)
	m := uint64(math.Ldexp(fraction, mantissa))
	s := mantissa - exponent
	zeros := min(bits.TrailingZeros64(m), s)
	return &constant{divisor: m >> zeros, shift: s - zeros}
}

// next returns the offset of the next arrival.
func (c *constant) next() (time.Duration, error) {
	offset, ok := c.at(c.index)
	if !ok {
		return 0, errOver
	}
	c.index++
	return offset, nil
}

func (c *constant) copyTo(used process) process { return copied(c, used) }

// at returns the offset of arrival i, and false if a time.Duration cannot hold it. An offset below 2^63 times a divisor
// of 53 bits has at most 116 bits, so a longer dividend is beyond any time.Duration.
func (c *constant) at(i uint64) (time.Duration, bool) {
	high, low := bits.Mul64(i, uint64(time.Second))
	if length(high, low)+c.shift > 116 {
		return 0, i == 0
	}
	high, low = shiftLeft(high, low, uint(c.shift))
	if high >= c.divisor {
		return 0, false
	}
	ns, rest := bits.Div64(high, low, c.divisor)
	if rest >= c.divisor-rest {
		ns++
	}
	return time.Duration(ns), ns <= math.MaxInt64
}

// length returns the number of bits of a two-word number.
func length(high, low uint64) int {
	if high != 0 {
		return 64 + bits.Len64(high)
	}
	return bits.Len64(low)
}

// shiftLeft returns a two-word number times 2^s, for s up to 127.
func shiftLeft(high, low uint64, s uint) (uint64, uint64) {
	if s >= 64 {
		return low << (s - 64), 0
	}
	return high<<s | low>>(64-s), low << s
}
