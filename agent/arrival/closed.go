package arrival

import (
	"fmt"
	"math"
	"sync"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Closed is the schedule of a closed loop: the stage has as many slots as its concurrency, and a slot that has become free
// starts the next request.
//
// Slot u belongs to the agent that owns number u, and request i to the agent that has slot i mod concurrency. Any free slot
// of an agent takes the agent's next request, so no slot idles while there is work, and it does not matter which slot was
// free first: the set of requests and who sends each is the same in every run. With phases the concurrency is the largest one
// and slots rest while they are not needed (see Wake); what belongs to whom stays as it is. A Closed is safe for concurrent
// use and never blocks.
type Closed struct {
	stripe      Stripe
	concurrency uint64
	slots       uint64
	think       think
	phases      []phase
	end         time.Duration // of the phases; the last offset there is if there are none

	mu     sync.Mutex
	course course
	taken  uint64 // requests handed out
	latest time.Duration
	over   bool
}

// NewClosed returns the stripe's part of a load point's requests.
//
// With requests, the agent owes as many measured ones as it has of the indices from warmup_requests on to warmup_requests +
// requests, so that all agents together measure exactly that many; a warm-up by duration or until steady only shifts which they
// are. With a duration, no measured request starts once the span is over that begins when the agent's warm-up has passed: at
// warmup_duration, at what Measure says, or when its first request beyond warmup_requests is handed out if that is later. With
// both, whichever is first. Then the agent starts unmeasured requests for the cool-down. With phases nothing starts after
// their end, and the cool-down is their last part.
func NewClosed(load *spatev1.LoadPoint, seed uint64, s Stripe) (*Closed, error) {
	if load.GetConcurrency() == 0 || load.GetRate() != 0 || load.GetReplaySpeed() != 0 {
		return nil, fmt.Errorf("arrival: a load of concurrency %d, rate %v and replay speed %v is no closed loop", load.GetConcurrency(), load.GetRate(), load.GetReplaySpeed())
	}
	concurrency := uint64(load.GetConcurrency())
	c := &Closed{stripe: s, concurrency: concurrency, slots: s.Below(concurrency), end: math.MaxInt64}
	var err error
	if c.think, err = newThink(load.GetThinkTime(), seed); err != nil {
		return nil, err
	}
	if c.phases, err = newPhases(load.GetPhases(), float64(concurrency)); err != nil {
		return nil, err
	}
	l, err := limitsOf(load, len(c.phases) > 0)
	if err != nil {
		return nil, err
	}
	if len(c.phases) > 0 {
		c.end = c.phases[len(c.phases)-1].end()
		if l, err = l.endingAt(c.end); err != nil {
			return nil, err
		}
	}
	c.course = course{limits: l, quota: c.below(l.warmupRequests+l.requests) - c.below(l.warmupRequests)}
	c.over = c.slots == 0
	return c, nil
}

// Slots returns how many requests the agent has in flight at most.
func (c *Closed) Slots() int { return int(c.slots) }

// Next hands the agent's next request to a slot that is free at elapsed since the stage's start, or false when there is
// nothing more to start. A slot asks when it is about to send: the answer says whether a request that starts now is measured.
func (c *Closed) Next(elapsed time.Duration) (Arrival, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return Arrival{}, false
	}
	c.latest = max(c.latest, elapsed) // slots race: the first to ask need not be the first to get here
	index := c.at(c.taken)
	unmeasured, more := c.course.take(index, c.latest)
	if l := &c.course.limits; !more || c.latest >= c.end || l.pending && c.latest >= l.warmupDuration {
		c.over = true
		return Arrival{}, false
	}
	c.taken++
	return Arrival{Index: index, Offset: elapsed, Unmeasured: unmeasured}, true
}

// Ending returns the offsets at which the measured part and the whole schedule end, as far as that is known by now: the last offset
// there is if not. Both can only become earlier. With requests and no cool-down it is the offset of the last request once that was
// handed out.
func (c *Closed) Ending() (measured, all time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	measured, all = c.course.ending()
	return min(measured, c.end), min(all, c.end)
}

// Wake returns when a slot of the agent, counted from 0, may start a request: elapsed itself if it is active then, else the moment
// it becomes active. It returns false if it never does again. Without phases all slots are always active.
//
// The stage's slot u is active while concurrency(t) > u, so that their number is the concurrency rounded up: 2.5 are slots 0,
// 1 and 2, and 0 is none. At the instant at which the value reaches a whole number from below nothing changes; just after it
// one more is active.
func (c *Closed) Wake(slot int, elapsed time.Duration) (at time.Duration, more bool) {
	if len(c.phases) == 0 {
		return elapsed, true
	}
	u := float64(c.stripe.At(uint64(slot)))
	for i := range c.phases {
		if p := &c.phases[i]; elapsed < p.end() {
			if at, more = p.firstAbove(u, elapsed); more {
				return at, true
			}
		}
	}
	return 0, false
}

// Think returns how long a slot rests after the request of an index, before it may send its next one.
func (c *Closed) Think(index uint64) time.Duration { return c.think.after(index) }

// Measure ends a warm-up until steady: requests that start from this offset on are measured, and requests and duration count
// from there. Of several calls the first counts. An offset beyond warmup_until_steady and MeasureSlack is taken as that one;
// without any call the schedule ends there. Other loads ignore it.
func (c *Closed) Measure(from time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := &c.course.limits; l.pending {
		l.pending = false
		l.warmupDuration = min(max(from, 0), l.warmupDuration)
	}
}

// at returns the agent's request k.
func (c *Closed) at(k uint64) uint64 {
	return k/c.slots*c.concurrency + c.stripe.At(k%c.slots)
}

// below returns how many requests below index n are the agent's.
func (c *Closed) below(n uint64) uint64 {
	return n/c.concurrency*c.slots + c.stripe.Below(n%c.concurrency)
}
