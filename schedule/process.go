// Package schedule computes when requests start: the schedule of a whole stage, and one agent's part of it.
//
// NewOpen makes the schedule of a rate: constant, Poisson or gamma arrivals, at one rate or over phases. NewReplay uses
// the times of a trace. NewClosed keeps a concurrency, constant or over phases, with think times. All have the same
// warm-up, measured part and cool-down.
//
// Everything here is a pure function of the load point, the stage's seed, the agent's share and, with a warm-up until
// steady, the moment at which measuring begins. Every agent computes the same schedule and takes its own indices, in
// turn or by a random draw. So the union over all agents is exactly what one machine would do, however many agents
// there are and however unequal. The package sends nothing, waits for nothing and reads no clock: the agent's executor
// asks it what comes next. Load points are valid: package plans has checked them, with the place of each mistake. Names
// that are not known, and a load without an end, are refused here, too: the coordinator may have another version.
package schedule

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/internal/lists"
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

// checkName returns an error if a name is not a known one.
func checkName(what, name string, known ...string) error {
	if slices.Contains(known, name) {
		return nil
	}
	return fmt.Errorf("schedule: unknown %s %q: use one of %s", what, name, strings.Join(known, ", "))
}

// newProcess returns the load's arrival process, at its start.
func newProcess(load *spatev1.LoadPoint, phases []phase, seed uint64, l *limits) (process, error) {
	if err := checkName("arrival process", load.GetArrival(), "constant", "gamma", "poisson"); err != nil {
		return nil, err
	}
	g := newGaps(load, seed)
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

// NewOpen returns the share's part of a load point's schedule, from its start. An executor that stops early can keep
// calling Next to count the arrivals that it never sent.
//
// With requests, that many arrivals are measured; Poisson and gamma arrivals take exactly requests / rate (see
// conditioned). With a duration, arrivals before the end of the measured span are measured.
// The span begins when the warm-up has passed: at warmup_duration, at the offset given to Measure, or at the offset of
// the first arrival beyond warmup_requests if that is later. An arrival at the very end of the span is not measured.
// With both, the measured part ends with whichever comes first. Unmeasured arrivals follow for the cool-down, then the
// schedule ends. Phases always end the schedule, and their last part is the cool-down. All of this depends only on the
// whole schedule, so every agent ends at the same arrival.
//
// The load's split decides which arrivals are the share's: see draws.
func NewOpen(load *spatev1.LoadPoint, seed uint64, s Share) (*Open, error) {
	phases := newPhases(load.GetPhases())
	var end time.Duration
	if len(phases) > 0 {
		end = phases[len(phases)-1].end()
	}
	l, err := limitsOf(load, len(phases) > 0, end)
	if err != nil {
		return nil, err
	}
	p, err := newProcess(load, phases, seed, &l)
	if err != nil {
		return nil, err
	}
	return newOpen(p, l, s, drawsOf(load, seed)), nil
}

// Quantise turns capacities of any scale into integer weights that sum up to total and are as nearly proportional as
// possible. Every positive capacity gets at least 1, a capacity of 0 gets 0. It fails if a capacity is negative,
// infinite or NaN, if none is positive, or if total is less than the number of positive capacities or more than
// MaxCycle.
func Quantise(capacities []float64, total uint32) ([]uint32, error) {
	largest, positive, err := checkCapacities(capacities)
	if err != nil {
		return nil, err
	}
	if int64(total) < int64(positive) || total > MaxCycle {
		return nil, fmt.Errorf(
			"schedule: a total of %[2]d cannot be split over %[1]d positive capacities: use %[3]d to %[4]d", positive,
			total, positive, MaxCycle)
	}
	sum := lists.Sum(capacities, func(c float64) float64 { return c / largest })
	weights := make([]uint32, len(capacities))
	left := int64(total)
	for i, c := range capacities {
		if c > 0 {
			weights[i] = max(1, uint32(c/largest/sum*float64(total)))
			left -= int64(weights[i])
		}
	}
	settle(weights, capacities, left)
	return weights, nil
}

// checkCapacities returns the largest capacity and how many are positive.
func checkCapacities(capacities []float64) (largest float64, positive int, err error) {
	for i, c := range capacities {
		if !(c >= 0) || math.IsInf(c, 1) {
			return 0, 0, fmt.Errorf("schedule: capacity %d is %v: it must be 0 or a positive number", i, c)
		}
		if c > 0 {
			positive++
		}
		largest = max(largest, c)
	}
	if positive == 0 {
		return 0, 0, errors.New("schedule: no capacity is positive: at least one must be")
	}
	return largest, positive, nil
}

// settle distributes what rounding down left over, or takes back what rounding up to 1 cost. It moves one unit at a
// time, to or from the agent that is furthest below or above its share by Webster's method.
func settle(weights []uint32, capacities []float64, left int64) {
	for ; left > 0; left-- {
		best, most := 0, 0.0
		for i, c := range capacities {
			if claim := c / float64(2*weights[i]+1); claim > most {
				best, most = i, claim
			}
		}
		weights[best]++
	}
	for ; left < 0; left++ {
		best, least := 0, math.Inf(1)
		for i, c := range capacities {
			if weights[i] < 2 {
				continue
			}
			if claim := c / float64(2*weights[i]-1); claim < least {
				best, least = i, claim
			}
		}
		weights[best]--
	}
}
