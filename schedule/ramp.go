package schedule

import (
	"math"
	"math/bits"
	"time"
)

// ramp generates arrivals at a rate r(t) that changes over time, from a process of rate 1.
//
// Let L(t) be the integral of r from 0 to t: the number of arrivals expected by t. If the base process of rate 1 has
// arrivals at u0, u1 and so on ("operational time"), the arrivals at t = L^-1(u) have the rate r(t), and their gaps
// measured in L are those of the base. A Poisson base gives the inhomogeneous Poisson process, whole numbers give
// arrivals that are one expected arrival apart, and gamma gaps keep their burstiness at each rate (Cinlar,
// "Introduction to Stochastic Processes", 1975, 4.7). Where r is 0 for a time, L is flat. The inverse is then the end
// of the flat part, so nothing arrives in it.
//
// Operational time is summed exactly, in whole units of 2^-64 of an arrival, and each phase inverts its own L in closed
// form (see segment), so errors do not accumulate over arrivals. The remaining errors: a phase's number of expected
// arrivals has a float's rounding error, 2^-50 of the number and 2^-63 of an arrival. Its times are within 2^-50 of the
// phase's length, and rounded to the nearest nanosecond.
type ramp struct {
	base       base
	cursor     cursor
	segment    segment
	begin, end expected // the segment's range in operational time
	last       time.Duration
}

// next returns the offset of the next arrival.
func (r *ramp) next() (time.Duration, error) {
	u, ok := r.base.next()
	if !ok {
		return 0, errOver
	}
	for !u.less(r.end) {
		if r.segment, ok = r.cursor.next(); !ok {
			return 0, errOver
		}
		r.begin, r.end = r.end, r.end.plus(r.segment.mass)
	}
	// A segment's times ascend with u except in the last bit.
	r.last = max(r.last, r.segment.at(u.minus(r.begin)))
	return r.last, nil
}

func (r *ramp) copyTo(used process) process { return copied(r, used) }

// expected is a number of expected arrivals: a whole number plus a fraction in units of 2^-64.
type expected struct{ whole, fraction uint64 }

// newExpected converts a number from 0 to 2^63. It truncates what is below 2^-64.
func newExpected(x float64) expected {
	whole := uint64(x)
	return expected{whole, uint64((x - float64(whole)) * (1 << 64))}
}

func (e expected) plus(x expected) expected {
	fraction, carry := bits.Add64(e.fraction, x.fraction, 0)
	return expected{e.whole + x.whole + carry, fraction}
}

func (e expected) minus(x expected) expected {
	fraction, borrow := bits.Sub64(e.fraction, x.fraction, 0)
	return expected{e.whole - x.whole - borrow, fraction}
}

func (e expected) less(x expected) bool {
	return e.whole < x.whole || e.whole == x.whole && e.fraction < x.fraction
}

// float returns the nearest float or a neighbour of it.
func (e expected) float() float64 {
	return float64(e.whole) + float64(float64(e.fraction)*(1.0/(1<<64)))
}

// base is an arrival process of rate 1: arrival i is at the sum of gaps 0 to i, or at i without gaps.
type base struct {
	gaps  gaps // nil: whole numbers
	index uint64
	sum   expected
}

// next returns the time of the next arrival, and false if the time is out of range.
func (b *base) next() (expected, bool) {
	const beyond = 1 << 62
	i := b.index
	b.index++
	if b.gaps == nil {
		return expected{whole: i}, true
	}
	gap := b.gaps.At(i)
	if !(gap < beyond) {
		return expected{}, false
	}
	b.sum = b.sum.plus(newExpected(gap))
	return b.sum, b.sum.whole < beyond
}

// cursor iterates over the segments of phases.
type cursor struct {
	phases []phase
	phase  int
}

// next returns the next segment, or false after the last one.
func (c *cursor) next() (segment, bool) {
	if c.phase == len(c.phases) {
		return segment{}, false
	}
	p := &c.phases[c.phase]
	c.phase++
	return newSegment(p.begin, p.length, p.from, p.to), true
}

// segment is a span in which the rate rises or falls evenly. A falling segment is computed backwards from its
// end, as a rising one, so that no formula subtracts nearly equal numbers.
type segment struct {
	begin, length time.Duration
	low, high     float64 // rates
	falling       bool
	slope         float64 // per second
	mass          expected
}

// newSegment computes the number of expected arrivals, the integral of the rate over the length D: D (low + high) / 2.
func newSegment(begin, length time.Duration, from, to float64) segment {
	g := segment{begin: begin, length: length, low: min(from, to), high: max(from, to), falling: to < from}
	g.slope = (g.high - g.low) / (float64(length) / float64(time.Second))
	g.mass = newExpected((g.low + g.high) * float64(length) / (2 * float64(time.Second)))
	return g
}

// at returns the offset at which u arrivals are expected since the segment's start. u must be below the segment's mass.
func (g *segment) at(u expected) time.Duration {
	if !g.falling {
		return g.begin + min(nanoseconds(g.after(u.float())), g.length)
	}
	return g.begin + max(g.length-nanoseconds(g.after(g.mass.minus(u).float())), 0)
}

// after returns after how many seconds the rising rate has u expected arrivals.
//
// The rate is low + a t with a = (high - low) / D, so low t + a t^2 / 2 = u. The root without cancellation is 2u /
// (low + sqrt(low^2 + 2 a u)).
func (g *segment) after(u float64) float64 {
	switch {
	case u == 0:
		return 0
	case g.slope == 0:
		return u / g.low
	default:
		return 2 * u / (g.low + math.Sqrt(float64(g.low*g.low)+float64(2*g.slope*u)))
	}
}

// nanoseconds converts seconds, which must be below 2^63 ns, and rounds to the nearest nanosecond.
func nanoseconds(seconds float64) time.Duration {
	return time.Duration(math.RoundToEven(seconds * float64(time.Second)))
}
