package schedule

import (
	"math"
	"time"
)

// mostConditioned bounds the arrivals, warm-up included, whose gaps are summed before a schedule starts. The sum takes
// some tens of milliseconds (BenchmarkCondition). Longer schedules are not conditioned: their mean rate is within 0.1 %
// anyway (one standard deviation; for gamma arrivals divided by the square root of the burstiness).
const mostConditioned = 1 << 20

// conditioned generates arrivals with random gaps, from a base process of rate 1, such that the n measured arrivals
// take exactly n / rate.
//
// Let u_i be the arrivals of the base, and let the measured part begin at time b, which is v in the base. Arrival i of
// the measured part is then at b + (u_i - v) / rate', with rate' = rate (u_e - v) / n, where u_e is the last measured
// arrival. Warm-up and cool-down have the plain rate.
//
// Scaling the gaps is the same as conditioning on the time of the last arrival. The proportions of gamma-distributed
// gaps, of which exponential gaps are a case, do not depend on the sum of the gaps (Lukacs, "A characterization of the
// gamma distribution", 1955). So the measured part has exactly the distribution of an unconditioned process that
// happens to have its n-th arrival at n / rate. In a Poisson process, the n - 1 arrivals before that are n - 1 sorted
// independent uniform instants. vLLM's benchmark client scales its gaps in the same way (vllm/benchmarks/serve.py,
// get_request).
//
// The base is summed exactly. Only rate' is rounded, and b and each time are rounded to the nearest nanosecond.
type conditioned struct {
	base      base
	stretches []stretch // immutable
	at        int       // index of the last arrival's stretch
	last      time.Duration
}

// stretch is a part of a schedule with one rate. It ends where the next stretch begins.
type stretch struct {
	begin time.Duration
	from  expected // begin, in base time
	rate  float64
}

// time converts base time u to an offset in the stretch, and returns false if a time.Duration cannot hold it.
func (s *stretch) time(u expected) (time.Duration, bool) {
	const beyond = 1 << 62 // ns: 146 years
	ns := math.RoundToEven(u.minus(s.from).float() / s.rate * float64(time.Second))
	if !(ns < beyond) {
		return 0, false
	}
	return later(s.begin, time.Duration(ns)), true
}

// next returns the offset of the next arrival.
func (c *conditioned) next() (time.Duration, error) {
	u, ok := c.base.next()
	if !ok {
		return 0, errOver
	}
	for c.at+1 < len(c.stretches) && !u.less(c.stretches[c.at+1].from) {
		c.at++
	}
	offset, ok := c.stretches[c.at].time(u)
	if !ok {
		return 0, errOver
	}
	if c.at+1 < len(c.stretches) {
		offset = min(offset, c.stretches[c.at+1].begin)
	}
	c.last = max(c.last, offset) // two arrivals may be a rounding error apart
	return c.last, nil
}

func (c *conditioned) copyTo(used process) process { return copied(c, used) }

// condition returns the stretches of a schedule. It returns nil if the schedule is not conditioned: it does not end by
// requests, the start of its measured part is not known in advance, it is longer than mostConditioned, or it is so
// bursty that its sums are meaningless.
func condition(g gaps, rate float64, l *limits) []stretch {
	if l.requests == 0 || l.pending || l.requests+l.warmupRequests > mostConditioned {
		return nil
	}
	s := &base{gaps: g}
	measured, u, ok := skipWarmup(s, rate, l)
	for n := uint64(1); ok && n < l.requests; n++ {
		u, ok = s.next()
	}
	if !ok || !measured.from.less(u) {
		return nil
	}
	end := stretch{from: u, rate: rate}
	if end.begin, ok = (&stretch{rate: rate}).time(expected{whole: l.requests}); !ok {
		return nil
	}
	end.begin = later(measured.begin, end.begin)
	measured.rate = u.minus(measured.from).float() / float64(l.requests) * rate
	return []stretch{{rate: rate}, measured, end}
}

// skipWarmup advances s to the first measured arrival, and returns where the measured part begins: at the end of a
// warm-up by time, or at the last arrival of the warm-up if that is later.
func skipWarmup(s *base, rate float64, l *limits) (measured stretch, first expected, ok bool) {
	free := stretch{rate: rate}
	for s.index+l.requests <= mostConditioned {
		if first, ok = s.next(); !ok {
			break
		}
		at, ok := free.time(first)
		if !ok || !l.warmup(s.index-1, at) {
			if measured.begin < l.warmupDuration {
				measured.begin, measured.from = l.warmupDuration,
					newExpected(rate*(float64(l.warmupDuration)/float64(time.Second)))
			}
			return measured, first, ok
		}
		measured.begin, measured.from = at, first
	}
	return stretch{}, expected{}, false
}
