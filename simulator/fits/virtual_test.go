package fits

import (
	"slices"
	"strconv"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/simulator/api"
	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/simulator/engine"
)

// virtual runs the engines of all endpoints in virtual time: without a clock, without HTTP, as fast as it computes.
// Requests go to the endpoints in turn, as in a plan.
type virtual struct {
	config      *config.Config
	engines     []engine.Model
	outstanding []int
	sent        int
	place       map[*engine.Sequence]int // its engine
	began       map[*engine.Sequence]clock.Instant
	first       map[*engine.Sequence]clock.Instant
	emitted     []engine.Emission // reused
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

func newVirtual(c *config.Config) *virtual {
	v := &virtual{config: c, place: map[*engine.Sequence]int{}, began: map[*engine.Sequence]clock.Instant{},
		first: map[*engine.Sequence]clock.Instant{}}
	for i := range max(1, c.Endpoints) * c.Loops() {
		v.engines = append(v.engines, engine.New(c, i, 0))
	}
	v.outstanding = make([]int, len(v.engines))
	return v
}

// next returns the engine with the next event and the event's instant, or -1 if there is none.
func (v *virtual) next() (int, clock.Instant) {
	which, at := -1, clock.Instant(0)
	for i := range v.engines {
		if t, ok := v.engines[i].Next(); ok && (which < 0 || t < at) {
			which, at = i, t
		}
	}
	return which, at
}

// send starts a request at an instant to which all engines have been advanced.
func (v *virtual) send(at clock.Instant, next lengths) {
	loops := v.config.Loops()
	from := v.sent % (len(v.engines) / loops) * loops
	least := from
	for i := from; i < from+loops; i++ {
		if v.outstanding[i] < v.outstanding[least] {
			least = i
		}
	}
	isl, osl := next()
	drawn := api.DrawScript(v.config, &api.Request{MaxTokens: osl},
		api.RequestRand(v.config.Seed, strconv.Itoa(v.sent)))
	v.sent++
	s := &engine.Sequence{Prompt: isl, Output: drawn.Tokens, Noise: drawn.Noise}
	v.place[s], v.began[s] = least, at
	v.outstanding[least]++
	v.engines[least].Advance(at, nil)
	v.engines[least].Add(s)
}

// advance returns what an engine emits up to an instant, valid until the next call.
func (v *virtual) advance(which int, to clock.Instant) []engine.Emission {
	v.emitted = v.engines[which].Advance(to, v.emitted[:0])
	return v.emitted
}

// take records what an engine emits up to an instant, and returns how many requests have ended.
func (v *virtual) take(which int, to clock.Instant) int {
	ended := 0
	for _, em := range v.advance(which, to) {
		if em.Produced == 1 {
			v.first[em.Seq] = em.At
		}
		if em.Produced < em.Seq.Output {
			continue
		}
		ended++
		v.outstanding[which]--
		v.seen.requests++
		v.seen.tokens += em.Produced
		v.seen.take(v.first[em.Seq].Sub(v.began[em.Seq]), em.At.Sub(v.began[em.Seq]), em.Produced)
		v.seen.last = em.At
		v.seen.ends = append(v.seen.ends, em.At)
		delete(v.place, em.Seq)
		delete(v.began, em.Seq)
		delete(v.first, em.Seq)
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
func closedLoop(c *config.Config, concurrency, requests int, next lengths) *seen {
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

// openLoop sends requests with gaps that a function returns, at most limit at a time. 0: there is no limit.
func openLoop(c *config.Config, gap func() time.Duration, requests, limit int, next lengths) *seen {
	v := newVirtual(c)
	arrives, now := clock.Instant(0), clock.Instant(0)
	for sent, ended := 0, 0; ; {
		which, at := v.next()
		due := max(arrives, now)
		switch {
		case sent < requests && (limit == 0 || sent-ended < limit) && (which < 0 || due <= at):
			v.send(due, next)
			sent++
			arrives = arrives.Add(gap())
		case which < 0:
			return &v.seen
		default:
			ended += v.take(which, at)
			now = at
		}
	}
}
