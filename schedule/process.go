package schedule

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// maxRate is the rate at which arrivals are a nanosecond apart.
const maxRate = 1e9

// process generates the offsets of all arrivals of the whole stage.
type process interface {
	// next returns the offset of the next arrival, which is never less than the last one. It returns errOver after the
	// last arrival, or if a time.Duration cannot hold the offset.
	next() (time.Duration, error)
	// copyTo returns a copy of the process in its current state. It may reuse the memory of used, an earlier copy.
	copyTo(used process) process
}

// errOver marks the regular end of a process.
var errOver = errors.New("schedule: over")

// newProcess returns the load's arrival process, at its start.
func newProcess(load *spatev1.LoadPoint, phases []phase, seed uint64, l *limits) (process, error) {
	g, err := newGaps(load, seed)
	if err != nil {
		return nil, fmt.Errorf("schedule: %w", err)
	}
	if len(phases) > 0 {
		return &ramp{base: base{gaps: g}, cursor: cursor{phases: phases}}, nil
	}
	rate := load.GetRate()
	if !(rate > 0 && rate <= maxRate) {
		return nil, fmt.Errorf("schedule: rate is %v per second: it must be positive and at most %.0e", rate,
			float64(maxRate))
	}
	if g == nil {
		return newConstant(rate), nil
	}
	if stretches := condition(g, rate, l); stretches != nil {
		return &conditioned{base: base{gaps: g}, stretches: stretches}, nil
	}
	return &renewal{gaps: g, rate: rate}, nil
}

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

// renewal generates arrivals at a constant rate with random gaps: arrival i is at the sum of gaps 0 to i, divided by
// the rate.
//
// The first arrival is therefore a whole gap after the start. For a Poisson process this is correct: the process has no
// memory, so the time from any instant, also the start, to the next arrival has the same exponential distribution as a
// gap.
//
// The sum is kept in whole units of 2^-32 ns. It is exact, so errors do not accumulate. Each gap is computed in floats
// by steps that every processor rounds alike, so agents on different machines have the same schedule to the nanosecond.
type renewal struct {
	gaps     gaps
	rate     float64
	index    uint64
	ns       uint64
	fraction uint64 // in 2^-32 ns
}

// next returns the offset of the next arrival.
func (r *renewal) next() (time.Duration, error) {
	const beyond = 1 << 62 // ns: 146 years
	gap := r.gaps.At(r.index) * float64(time.Second) / r.rate
	r.index++
	if !(gap < beyond) {
		return 0, errOver
	}
	whole := uint64(gap)
	r.fraction += uint64((gap - float64(whole)) * (1 << 32))
	r.ns += whole + r.fraction>>32
	r.fraction &= 1<<32 - 1
	if r.ns >= beyond {
		return 0, errOver
	}
	return time.Duration(r.ns + r.fraction>>31), nil
}

func (r *renewal) copyTo(used process) process { return copied(r, used) }
