package simulator

import (
	"math/rand/v2"
	"time"

	"github.com/spate-load/spate/clock"
)

// virtual runs an endpoint's engines in virtual time: no clock, no HTTP, and no time taken but the computing.
type virtual struct {
	engines     []engine
	outstanding []int
	place       map[*sequence]int // its engine
	began       map[*sequence]clock.Instant
	first       map[*sequence]clock.Instant
	seen        seen
}

// seen is what a client sees of a load.
type seen struct {
	requests        int
	tokens          int
	ttft, tpot, e2e time.Duration // sums
	last            clock.Instant // end of the last request
	ends            []clock.Instant
}

func (s *seen) tokenRate() float64      { return float64(s.tokens) / s.last.Sub(0).Seconds() }
func (s *seen) meanTTFT() time.Duration { return s.ttft / time.Duration(s.requests) }

// steadyRate is the rate of completions in the middle half of them.
func (s *seen) steadyRate() float64 {
	from, to := len(s.ends)/4, len(s.ends)*3/4
	return float64(to-from) / s.ends[to].Sub(s.ends[from]).Seconds()
}

func newVirtual(c *Config) *virtual {
	v := &virtual{place: map[*sequence]int{}, began: map[*sequence]clock.Instant{}, first: map[*sequence]clock.Instant{}}
	for range c.loops() {
		v.engines = append(v.engines, newEngine(c.Model, c.PrefillEngines, c.Replicas, 0))
	}
	v.outstanding = make([]int, len(v.engines))
	return v
}

// next returns the engine whose event is the next, and when; -1 without one.
func (v *virtual) next() (int, clock.Instant) {
	which, at := -1, clock.Instant(0)
	for i := range v.engines {
		if t, ok := v.engines[i].next(); ok && (which < 0 || t < at) {
			which, at = i, t
		}
	}
	return which, at
}

// send begins a request at an instant to which all engines are taken.
func (v *virtual) send(at clock.Instant, next lengths) {
	least := 0
	for i, n := range v.outstanding {
		if n < v.outstanding[least] {
			least = i
		}
	}
	s := &sequence{}
	s.prompt, s.output = next()
	v.place[s], v.began[s] = least, at
	v.outstanding[least]++
	v.engines[least].advance(at, nil)
	v.engines[least].add(s)
}

// take notes what an engine emits on the way to an instant. It returns how many requests have ended.
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
		v.seen.ttft += v.first[em.seq].Sub(v.began[em.seq])
		v.seen.e2e += em.at.Sub(v.began[em.seq])
		if em.produced > 1 {
			v.seen.tpot += em.at.Sub(v.first[em.seq]) / time.Duration(em.produced-1)
		}
		v.seen.last = em.at
		v.seen.ends = append(v.seen.ends, em.at)
		delete(v.place, em.seq)
		delete(v.began, em.seq)
		delete(v.first, em.seq)
	}
	return ended
}

// lengths returns the prompt and output tokens of the next request.
type lengths func() (isl, osl int)

func fixed(isl, osl int) lengths { return func() (int, int) { return isl, osl } }

// closedLoop keeps so many requests under way until so many have been sent.
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

// openLoop sends requests with gaps from a function.
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

// poisson draws the gaps of a Poisson process.
func poisson(rate float64) func() time.Duration {
	r := rand.New(rand.NewPCG(1, 2))
	return func() time.Duration { return time.Duration(r.ExpFloat64() / rate * float64(time.Second)) }
}
