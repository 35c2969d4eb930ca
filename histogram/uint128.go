package histogram

import (
	"math"
	"math/big"
	"math/bits"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Uint128 is an exact sum: High x 2^64 + Low.
type Uint128 struct {
	High, Low uint64
}

// Float64 returns u as a float. Its error is at most one rounding of each half and of their sum.
func (u Uint128) Float64() float64 { return math.Ldexp(float64(u.High), 64) + float64(u.Low) }

// String returns u in decimal.
func (u Uint128) String() string {
	n := new(big.Int).SetUint64(u.High)
	n.Lsh(n, 64)
	return n.Or(n, new(big.Int).SetUint64(u.Low)).String()
}

// Less reports whether u is less than v.
func (u Uint128) Less(v Uint128) bool { return u.High < v.High || u.High == v.High && u.Low < v.Low }

// Add returns u + v. The count limit of a histogram keeps its sums below 2^128.
func (u Uint128) Add(v Uint128) Uint128 {
	low, carry := bits.Add64(u.Low, v.Low, 0)
	return Uint128{High: u.High + v.High + carry, Low: low}
}

// sub returns u - v, for v <= u.
func (u Uint128) sub(v Uint128) Uint128 {
	low, borrow := bits.Sub64(u.Low, v.Low, 0)
	return Uint128{High: u.High - v.High - borrow, Low: low}
}

// scale returns u x n, which must fit.
func (u Uint128) scale(n uint64) Uint128 {
	high, low := bits.Mul64(u.Low, n)
	return Uint128{High: high + u.High*n, Low: low}
}

// product returns a x b.
func product(a, b uint64) Uint128 {
	high, low := bits.Mul64(a, b)
	return Uint128{High: high, Low: low}
}

// proto returns u as a message.
func (u Uint128) proto() *spatev1.Uint128 { return &spatev1.Uint128{High: u.High, Low: u.Low} }

// uint128 reads a message. Nil is zero.
func uint128(m *spatev1.Uint128) Uint128 { return Uint128{High: m.GetHigh(), Low: m.GetLow()} }

// uint192 holds products of sums, least significant word first.
type uint192 [3]uint64

// times returns u x n.
func (u Uint128) times(n uint64) uint192 {
	low, high := product(u.Low, n), product(u.High, n)
	middle, carry := bits.Add64(low.High, high.Low, 0)
	return uint192{low.Low, middle, high.High + carry}
}

// square returns u^2, for u below 2^96.
func (u Uint128) square() uint192 {
	s, cross := u.times(u.Low), u.times(u.High)
	var carry uint64
	s[1], carry = bits.Add64(s[1], cross[0], 0)
	s[2] += cross[1] + carry
	return s
}

// sub returns u - v, and false if that is negative.
func (u uint192) sub(v uint192) (d uint192, ok bool) {
	var borrow uint64
	for i := range u {
		d[i], borrow = bits.Sub64(u[i], v[i], borrow)
	}
	return d, borrow == 0
}

// float64 returns u with the rounding of three additions.
func (u uint192) float64() float64 {
	return math.Ldexp(float64(u[2]), 128) + math.Ldexp(float64(u[1]), 64) + float64(u[0])
}
