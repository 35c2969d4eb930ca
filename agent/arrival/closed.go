package arrival

import (
	"fmt"
	"sync"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Closed is the schedule of a closed loop: the stage has as many slots as its concurrency, and a slot that has become free
// starts the next request.
//
// Slot u belongs to the agent that owns number u, and request i to the agent that has slot i mod concurrency. Any free slot
// of an agent takes the agent's next request, so no slot idles while there is work, and it does not matter which slot was
// free first: the set of requests and who sends each is the same in every run. A Closed is safe for concurrent use.
type Closed struct {
	limits      limits
	stripe      Stripe
	concurrency uint64
	slots       uint64
	quota       uint64 // measured requests this agent owes, if requests end the stage

	mu       sync.Mutex
	taken    uint64 // requests handed out
	measured uint64 // of which measured
	timer    timer
	latest   time.Duration
	over     bool
}

// NewClosed returns the stripe's part of a load point's requests.
//
// With requests, the agent owes as many measured ones as it has of the indices from warmup_requests on to warmup_requests +
// requests, so that all agents together measure exactly that many; a warm-up by duration only shifts which they are. With a
// duration, no request starts once the span is over that begins when the agent's warm-up has passed: at warmup_duration, or
// when its first request beyond warmup_requests is handed out if that is later. With both, whichever is first.
func NewClosed(load *spatev1.LoadPoint, s Stripe) (*Closed, error) {
	if load.GetConcurrency() == 0 || load.GetRate() != 0 {
		return nil, fmt.Errorf("arrival: a load of concurrency %d and rate %v is no closed loop", load.GetConcurrency(), load.GetRate())
	}
	l, err := limitsOf(load)
	if err != nil {
		return nil, err
	}
	concurrency := uint64(load.GetConcurrency())
	c := &Closed{limits: l, stripe: s, concurrency: concurrency, slots: s.Below(concurrency)}
	c.quota = c.below(l.warmupRequests+l.requests) - c.below(l.warmupRequests)
	c.over = c.slots == 0
	return c, nil
}

// Slots returns how many requests the agent has in flight at most.
func (c *Closed) Slots() int { return int(c.slots) }

// Next hands the agent's next request to a slot that is free at elapsed since the stage's start, or false when there is
// nothing more to start. It never blocks.
func (c *Closed) Next(elapsed time.Duration) (Arrival, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return Arrival{}, false
	}
	c.latest = max(c.latest, elapsed) // slots race: the first to ask need not be the first to get here
	index := c.at(c.taken)
	warmup := c.limits.warmup(index, c.latest)
	if c.timer.over(&c.limits, index, c.latest) || !warmup && c.done() {
		c.over = true
		return Arrival{}, false
	}
	c.taken++
	if !warmup {
		c.measured++
	}
	return Arrival{Index: index, Offset: elapsed, Unmeasured: warmup}, true
}

// done says whether the agent has started all the measured requests it owes.
func (c *Closed) done() bool { return c.limits.requests != 0 && c.measured == c.quota }

// at returns the agent's request k.
func (c *Closed) at(k uint64) uint64 {
	return k/c.slots*c.concurrency + c.stripe.At(k%c.slots)
}

// below returns how many requests below index n are the agent's.
func (c *Closed) below(n uint64) uint64 {
	return n/c.concurrency*c.slots + c.stripe.Below(n%c.concurrency)
}
