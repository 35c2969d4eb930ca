package arrival

import (
	"math"
	"time"
)

// mostConditioned bounds the arrivals, warm-up included, whose gaps are summed before a schedule starts: some tens of
// milliseconds of work (BenchmarkCondition). Longer schedules are not conditioned: chance alone keeps their mean rate
// within 0.1 % (one standard deviation; divided by the square root of the burstiness for gamma arrivals).
const mostConditioned = 1 << 20

// conditioned makes arrivals with random gaps whose n measured ones take exactly n / rate, from a base process of rate
// 1.
//
// Let u_i be the arrivals of the base, and the measured part begin at time b, in the base at v. Arrival i of the
// measured part then is at b + (u_i - v) / rate', with rate' = rate (u_e - v) / n, where u_e is the last measured
// arrival. The warm-up before it and the cool-down behind it have the plain rate.
//
// Scaling the gaps is the same as conditioning on the time of the last arrival. Gaps of a gamma distribution, of which
// the exponential one is a case, have proportions that do not depend on their sum (Lukacs, "A characterization of the
// gamma distribution", 1955). So the measured part has exactly the distribution of a free process that happens to have
// its n-th arrival at n / rate. Of a Poisson process, the n - 1 arrivals before that one are n - 1 independent uniform
// instants in order. vLLM's benchmark client scales its gaps alike (vllm/benchmarks/serve.py, get_request).
//
// The base is summed exactly, so the only rounding is that of rate' and of b and each time to the nearest nanosecond.
type conditioned struct {
	base      base
	stretches []stretch // not changed any more
	at        int       // the stretch of the last arrival
	last      time.Duration
}

// stretch is a part of a schedule with one rate. It ends where the next one begins.
type stretch struct {
	begin time.Duration
	from  expected // begin, in the base
	rate  float64
}

// time returns when the base's u is in the stretch, false if no time.Duration can hold it.
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
	c.last = max(c.last, offset) // of two arrivals a rounding error apart
	return c.last, nil
}

func (c *conditioned) copyTo(used process) process {
	old, _ := used.(*conditioned)
	if old == nil {
		old = new(conditioned)
	}
	b := c.base.copyTo(old.base)
	*old = *c
	old.base = b
	return old
}

// condition returns the stretches of a schedule, nil if it is not to be conditioned: it does not end by requests, where
// its measured part begins is not known beforehand, it is longer than mostConditioned, or it is too bursty for its sums
// to have a meaning.
func condition(g gaps, rate float64, l *limits) []stretch {
	if l.requests == 0 || l.pending || l.requests+l.warmupRequests > mostConditioned {
		return nil
	}
	s := &sums{gaps: g}
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

// skipWarmup goes to the first measured arrival, and returns where the measured part begins: at the end of a warm-up by
// time, or at the last arrival of the warm-up if that is later.
func skipWarmup(s *sums, rate float64, l *limits) (measured stretch, first expected, ok bool) {
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
