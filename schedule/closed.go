package schedule

import (
	"math"
	"math/bits"
	"sync"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
)

// Closed is the schedule of a closed loop: the stage has as many slots as its concurrency, and a free slot starts the
// next request.
//
// Slot u belongs to the agent that owns number u, and request i to the agent that has slot i mod concurrency. Any free
// slot of an agent takes the agent's next request, so no slot idles while there is work. Which slot is free first does
// not matter: the set of requests, and which agent sends each, is the same in every run. With phases the concurrency is
// the largest one, and slots rest while they are not needed (see Wake). Phases do not change which agent owns what.
//
// With a stagger, slot u of c starts at u/c of the stagger, whichever agent has the slot, so that requests do not reach
// the server in waves. Requests that start before the end of the stagger are warm-up, because fewer requests are in
// flight than the load asks for.
//
// When an agent is lost, its slots pass to other agents at once, together with the requests of their list from the
// first that the lost agent is not known to have started. A handover splits each list of slots by its pattern, and
// requests follow their slots, so an agent with requests always has slots to send them. A Closed is safe for concurrent
// use and never blocks.
type Closed struct {
	concurrency uint64
	think       think
	phases      []phase
	end         time.Duration // end of the phases; math.MaxInt64 without phases
	limits      limits        // as they were at the start

	mu       sync.Mutex
	lists    []list
	slots    uint64
	progress progress
	latest   time.Duration // of Next's calls; -1: none
	over     bool
	left     bool // the agent leaves: others have what has not started
}

// NewClosed returns the share's part of a load point's requests.
//
// With requests, the agent measures as many requests as it owns indices from warmup_requests to warmup_requests +
// requests (exclusive), so that all agents together measure exactly that number. A warm-up by duration or until steady
// only shifts which requests they are. With a duration, no measured request starts after the end of the measured span.
// The span begins when the agent's warm-up has passed: at warmup_duration, at the offset given to Measure, or when the
// agent's first request beyond warmup_requests starts if that is later. With both, the measured part ends with
// whichever comes first. Then the agent starts unmeasured requests for the cool-down. With phases nothing starts after
// their end, and the cool-down is their last part.
func NewClosed(load *spatev1.LoadPoint, seed uint64, s Share) (*Closed, error) {
	c := &Closed{concurrency: uint64(load.GetConcurrency()), end: math.MaxInt64, latest: -1,
		think: newThink(load.GetThinkTime(), seed), phases: newPhases(load.GetPhases())}
	if len(c.phases) > 0 {
		c.end = c.phases[len(c.phases)-1].end()
	}
	var err error
	if c.limits, err = limitsOf(load, len(c.phases) > 0, c.end); err != nil {
		return nil, err
	}
	c.progress.limits = c.limits
	return c, c.take(s)
}

// take sets the agent's share. What its lists had started stays started.
func (c *Closed) take(s Share) error {
	if err := s.checkGiver(); err != nil {
		return err
	}
	lists := s.lists(c.concurrency, &c.limits)
	c.progress.more(measures(lists))
	c.slots = 0
	for i := range lists {
		c.slots += lists[i].slots
	}
	for i, l := range c.lists {
		lists[i].setNext(l.next)
		lists[i].warmed = l.warmed
	}
	c.lists, c.over = lists, len(lists) == 0
	return nil
}

// Revise changes the agent's share, which must come from Share.Revised. It fails, and changes nothing, if the new share
// takes something from the agent itself. Requests that are taken over start as if they had always been the agent's: a
// schedule that was over may continue, and Slots may grow.
func (c *Closed) Revise(s Share) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.take(s)
}

// Leave ends the agent's part of the schedule: Next returns nothing more, and Quota counts only what has started. The
// rest is for others, who learn of it by Started.
func (c *Closed) Leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = true
}

// Started returns, for each of the agent's lists in order, the first request that was not started. If a warm-up by time
// leaves requests out of a fixed number to measure, each value is followed by how many requests of the list it has left
// out. See Snapshot.started_items. left reports whether the numbers are final because the agent has left something to
// others.
func (c *Closed) Started() (all []uint64, left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all = make([]uint64, 0, 2*len(c.lists))
	for i := range c.lists {
		all = append(all, c.lists[i].next)
		if c.limits.leavesOut() {
			all = append(all, c.lists[i].warmed)
		}
	}
	return all, c.left && !c.over && c.first() != nil
}

// Quota returns how many requests the agent must measure, including those already started, if the load has requests.
func (c *Closed) Quota() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return c.progress.measured
	}
	return c.progress.quota
}

// Slots returns the agent's number of slots. Only Revise changes it: it adds slots with higher numbers.
func (c *Closed) Slots() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(c.slots)
}

// Next returns the agent's next request for a slot that is free at elapsed since the stage's start, or false when there
// is nothing more to start. A slot calls it when it is about to send, because the answer decides whether a request that
// starts now is measured.
func (c *Closed) Next(elapsed time.Duration) (Arrival, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.left {
		return Arrival{}, false
	}
	c.latest = max(c.latest, elapsed) // concurrent calls may arrive out of order
	l := c.first()
	if l == nil {
		return Arrival{}, false
	}
	a := Arrival{Index: l.index, Offset: elapsed}
	var more bool
	a.Unmeasured, more = c.progress.take(l.index, c.latest)
	if limits := &c.progress.limits; !more || c.latest >= c.end || limits.pending && c.latest >= limits.warmupDuration {
		c.over = true
		return Arrival{}, false
	}
	if a.Unmeasured && !c.progress.ended && l.next >= l.warm {
		l.warmed++
	}
	l.setNext(l.next + 1)
	return a, true
}

// first returns the list whose next request comes first in the stage, nil if no list has requests left.
func (c *Closed) first() (first *list) {
	if len(c.lists) == 1 && !c.lists[0].done() {
		return &c.lists[0]
	}
	for i := range c.lists {
		if l := &c.lists[i]; !l.done() && (first == nil || l.index < first.index) {
			first = l
		}
	}
	return first
}

// Ending returns the offsets at which the measured part and the whole schedule end. An offset that is not known yet is
// math.MaxInt64. Only Revise makes them later. With requests and no cool-down, both are the offset of the last request
// once Next has returned it.
func (c *Closed) Ending() (measured, all time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	measured, all = c.progress.ending()
	return min(measured, c.end), min(all, c.end)
}

// Wake returns when a slot of the agent, counted from 0, may start a request: elapsed itself if the slot is active
// then, else the moment when it becomes active. It returns false if the slot is never active again. Without phases all
// slots are active from the start on, or from their time within the stagger.
//
// The stage's slot u is active while concurrency(t) > u, so the number of active slots is the concurrency rounded up:
// at 2.5 slots 0, 1 and 2 are active, at 0 none. When the value reaches a whole number from below, nothing changes at
// that instant; just after it one more slot is active.
func (c *Closed) Wake(slot int, elapsed time.Duration) (at time.Duration, more bool) {
	if len(c.phases) == 0 {
		return c.staggered(slot, elapsed), true
	}
	u := float64(c.slot(uint64(slot)))
	for i := range c.phases {
		if p := &c.phases[i]; elapsed < p.end() {
			if at, more = p.firstAbove(u, elapsed); more {
				return at, true
			}
		}
	}
	return 0, false
}

// staggered returns elapsed, or the start of a slot of the agent if that is later. Slot u of the stage's c slots starts
// at u/c of the stagger, rounded down to a nanosecond.
func (c *Closed) staggered(slot int, elapsed time.Duration) time.Duration {
	if elapsed >= c.limits.stagger {
		return elapsed
	}
	high, low := bits.Mul64(uint64(c.limits.stagger), c.slot(uint64(slot)))
	at, _ := bits.Div64(high, low, c.concurrency) // fits because u is below c
	return max(elapsed, time.Duration(at))
}

// Think returns how long a slot rests after the request with an index before it may send its next one.
func (c *Closed) Think(index uint64) time.Duration { return c.think.after(index) }

// Measure ends a warm-up until steady: requests that start from this offset on are measured, and requests and duration
// count from there. An offset beyond warmup_until_steady plus MeasureSlack is reduced to that; without a call the
// schedule ends there. An offset within the stagger is raised to the stagger's end. A further call moves the offset.
// Measure changes nothing once a request that the change would affect has started. It returns the offset, and false if
// there is none. Other loads ignore Measure.
func (c *Closed) Measure(from time.Duration) (at time.Duration, measures bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &c.progress.limits
	from = min(max(from, l.stagger), c.limits.warmupDuration)
	if c.limits.pending && from > c.latest && (l.pending || l.warmupDuration > c.latest) {
		l.pending, l.warmupDuration, c.progress.timer = false, from, timer{}
	}
	return l.warmupDuration, c.limits.pending && !l.pending
}

// slot returns the stage's number of one of the agent's slots.
func (c *Closed) slot(n uint64) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.lists {
		l := &c.lists[i]
		if n < l.slots {
			return l.at(n)
		}
		n -= l.slots
	}
	panic("schedule: no such slot")
}

// think is the time between a request's end and the next request of its slot.
type think struct {
	mean        time.Duration
	exponential bool
	random      draw.Sequence
}

// newThink reads a think time. Unset is 0.
func newThink(t *spatev1.ThinkTime, seed uint64) think {
	return think{mean: t.GetMean().AsDuration(), exponential: t.GetDistribution() == "exponential",
		random: draw.New(seed, "think time")}
}

// after returns the think time after request i. An exponential one is -ln(1 - U_i) times the mean, at most 36.8 times
// the mean.
func (t *think) after(i uint64) time.Duration {
	if !t.exponential {
		return t.mean
	}
	return time.Duration(math.RoundToEven(float64(t.mean) * draw.Exponential(t.random.At(i))))
}
