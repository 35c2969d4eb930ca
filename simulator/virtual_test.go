package simulator

import (
	"slices"
	"strconv"
	"time"

	"github.com/spate-load/spate/clock"
)

// virtual runs the engines of all endpoints in virtual time: without a clock, without HTTP, as fast as it computes.
// Requests go to the endpoints in turn, as in a plan.
type virtual struct {
	config      *Config
	engines     []engine
	outstanding []int
	sent        int
	place       map[*sequence]int // its engine
	began       map[*sequence]clock.Instant
	first       map[*sequence]clock.Instant
	seen        seen
}

// seen is what a client measures under a load.
type seen struct {
	requests         int
	tokens           int
	ttft, tpot, e2e  time.Duration // sums
	ttfts, tpots, es []time.Duration
	last             clock.Instant // end of the last request
	ends             []clock.Instant
}

func (s *seen) tokenRate() float64      { return float64(s.tokens) / s.last.Sub(0).Seconds() }
func (s *seen) meanTTFT() time.Duration { return s.ttft / time.Duration(s.requests) }

// steadyRate returns the rate of completions in the middle half of all completions.
func (s *seen) steadyRate() float64 {
	from, to := len(s.ends)/4, len(s.ends)*3/4
	return float64(to-from) / s.ends[to].Sub(s.ends[from]).Seconds()
}

func newVirtual(c *Config) *virtual {
	v := &virtual{config: c, place: map[*sequence]int{}, began: map[*sequence]clock.Instant{},
		first: map[*sequence]clock.Instant{}}
	for i := range max(1, c.Endpoints) * c.loops() {
		v.engines = append(v.engines, c.newEngine(i, 0))
	}
	v.outstanding = make([]int, len(v.engines))
	return v
}

// next returns the engine with the next event and the event's instant, or -1 if there is none.
func (v *virtual) next() (int, clock.Instant) {
	which, at := -1, clock.Instant(0)
	for i := range v.engines {
		if t, ok := v.engines[i].next(); ok && (which < 0 || t < at) {
			which, at = i, t
		}
	}
	return which, at
}

// send starts a request at an instant to which all engines have been advanced.
func (v *virtual) send(at clock.Instant, next lengths) {
	loops := v.config.loops()
	from := v.sent % (len(v.engines) / loops) * loops
	least := from
	for i := from; i < from+loops; i++ {
		if v.outstanding[i] < v.outstanding[least] {
			least = i
		}
	}
	isl, osl := next()
	drawn := v.config.drawScript(&request{maxTokens: osl}, requestRand(v.config.Seed, strconv.Itoa(v.sent)))
	v.sent++
	s := &sequence{prompt: isl, output: drawn.tokens, noise: drawn.noise}
	v.place[s], v.began[s] = least, at
	v.outstanding[least]++
	v.engines[least].advance(at, nil)
	v.engines[least].add(s)
}

// take records what an engine emits up to an instant, and returns how many requests have ended.
func (v *virtual) take(which int, to clock.Instant) int {
	ended := 0
	for _, em := range v.engines[which].advance(to, nil) {
		if em.produced == 1 {
			v.first[em.seq] = em.at
		}
		if em.produced < em.seq.output {
			continue
		}
		ended++
		v.outstanding[which]--
		v.seen.requests++
		v.seen.tokens += em.produced
		v.seen.take(v.first[em.seq].Sub(v.began[em.seq]), em.at.Sub(v.began[em.seq]), em.produced)
		v.seen.last = em.at
		v.seen.ends = append(v.seen.ends, em.at)
		delete(v.place, em.seq)
		delete(v.began, em.seq)
		delete(v.first, em.seq)
	}
	return ended
}

// take records a request.
func (s *seen) take(ttft, e2e time.Duration, tokens int) {
	s.ttft += ttft
	s.e2e += e2e
	s.ttfts, s.es = append(s.ttfts, ttft), append(s.es, e2e)
	if tokens > 1 {
		tpot := (e2e - ttft) / time.Duration(tokens-1)
		s.tpot += tpot
		s.tpots = append(s.tpots, tpot)
	}
}

// p99 returns the 99th percentile by the nearest-rank method.
func p99(times []time.Duration) time.Duration {
	times = slices.Sorted(slices.Values(times))
	return times[(len(times)*99+99)/100-1]
}

// lengths returns the prompt and output tokens of the next request.
type lengths func() (isl, osl int)

func fixed(isl, osl int) lengths { return func() (int, int) { return isl, osl } }

// closedLoop keeps concurrency requests in flight until it has sent a number of requests.
func closedLoop(c *Config, concurrency, requests int, next lengths) *seen {
	v := newVirtual(c)
	sent := 0
	for ; sent < min(concurrency, requests); sent++ {
		v.send(0, next)
	}
	for {
		which, at := v.next()
		if which < 0 {
			return &v.seen
		}
		for range v.take(which, at) {
			if sent < requests {
				v.send(at, next)
				sent++
			}
		}
	}
}

// openLoop sends requests with gaps that a function returns.
func openLoop(c *Config, gap func() time.Duration, requests int, next lengths) *seen {
	v := newVirtual(c)
	arrives := clock.Instant(0)
	for sent := 0; ; {
		which, at := v.next()
		switch {
		case sent < requests && (which < 0 || arrives <= at):
			v.send(arrives, next)
			sent++
			arrives = arrives.Add(gap())
		case which < 0:
			return &v.seen
		default:
			v.take(which, at)
		}
	}
}
