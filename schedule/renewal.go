package schedule

import "time"

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
	gap := r.gaps.gap(r.index) * float64(time.Second) / r.rate
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
