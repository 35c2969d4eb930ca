package arrival

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Closed is the schedule of a closed loop: the stage has as many slots as its concurrency, and a slot that has become
// free starts the next request.
//
// Slot u belongs to the agent that owns number u, and request i to the agent that has slot i mod concurrency. Any free
// slot of an agent takes the agent's next request, so no slot idles while there is work, and it does not matter which
// slot was free first: the set of requests and who sends each is the same in every run. With phases the concurrency is
// the largest one and slots rest while they are not needed (see Wake); what belongs to whom stays as it is.
//
// With a stagger, slot u of c starts at u/c of that time, whichever agent has it, so that a server that answers in
// about that time is not asked in waves. Requests that start before the stagger is over are warm-up: fewer of them were
// in flight than the load says.
//
// When an agent is lost its slots go over to others at once, each with the requests of its list from the first one on
// that the lost agent is not known to have begun: a handover shares out each list of slots by its pattern, and requests
// follow their slots. So who has requests has slots to send them. A Closed is safe for concurrent use and never blocks.
type Closed struct {
	concurrency uint64
	think       think
	phases      []phase
	end         time.Duration // of the phases; the last offset there is if there are none
	limits      limits        // as they were at the begin

	mu     sync.Mutex
	share  Share
	lists  []list
	slots  uint64
	course course
	latest time.Duration
	over   bool
}

// NewClosed returns the share's part of a load point's requests.
//
// With requests, the agent owes as many measured ones as it has of the indices from warmup_requests on to
// warmup_requests + requests, so that all agents together measure exactly that many; a warm-up by duration or until
// steady only shifts which they are. With a duration, no measured request starts once the span is over that begins when
// the agent's warm-up has passed: at warmup_duration, at what Measure says, or when its first request beyond
// warmup_requests is handed out if that is later. With both, whichever is first. Then the agent starts unmeasured
// requests for the cool-down. With phases nothing starts after their end, and the cool-down is their last part.
func NewClosed(load *spatev1.LoadPoint, seed uint64, s Share) (*Closed, error) {
	if load.GetConcurrency() == 0 || load.GetRate() != 0 || load.GetReplaySpeed() != 0 {
		return nil, fmt.Errorf("arrival: a load of concurrency %d, rate %v and replay speed %v is no closed loop",
			load.GetConcurrency(), load.GetRate(), load.GetReplaySpeed())
	}
	concurrency := uint64(load.GetConcurrency())
	c := &Closed{concurrency: concurrency, end: math.MaxInt64}
	var err error
	if c.think, err = newThink(load.GetThinkTime(), seed); err != nil {
		return nil, err
	}
	if c.phases, err = newPhases(load.GetPhases(), float64(concurrency)); err != nil {
		return nil, err
	}
	if c.limits, err = limitsOf(load, len(c.phases) > 0); err != nil {
		return nil, err
	}
	if c.limits.stagger > 0 && len(c.phases) > 0 {
		return nil, errors.New("arrival: phases say when slots start: leave stagger out")
	}
	if len(c.phases) > 0 {
		c.end = c.phases[len(c.phases)-1].end()
		if c.limits, err = c.limits.endingAt(c.end); err != nil {
			return nil, err
		}
	}
	c.course.limits = c.limits
	return c, c.take(s)
}

// take makes a share the agent's. What its lists had begun stays so.
func (c *Closed) take(s Share) error {
	if err := s.checkGiver(); err != nil {
		return err
	}
	lists := s.lists(c.concurrency, &c.limits)
	c.course.more(measures(lists))
	c.slots = 0
	for i := range lists {
		c.slots += lists[i].slots
	}
	for i, l := range c.lists {
		lists[i].begin(l.next)
		lists[i].warmed = l.warmed
	}
	c.share, c.lists, c.over = s, lists, len(lists) == 0
	return nil
}

// Revise changes the agent's share to what Share.Revised made of the one before. It is an error, and changes nothing,
// if the share takes from the agent itself. What is taken over is begun as if it had always been there: the schedule
// may go on that was over, and Slots may grow.
func (c *Closed) Revise(s Share) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.take(s)
}

// Begun returns the first request that was not begun of each of the agent's lists, in their order. Where a warm-up by
// time leaves requests out of a number that is to be measured, each is followed by how many of those before it that
// were. See Snapshot.begun_items.
func (c *Closed) Begun() []uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]uint64, 0, 2*len(c.lists))
	for i := range c.lists {
		all = append(all, c.lists[i].next)
		if c.limits.leavesOut() {
			all = append(all, c.lists[i].warmed)
		}
	}
	return all
}

// Owed returns how many measured requests the agent owes, with those that it has begun: those of its share if the load
// has requests.
func (c *Closed) Owed() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.course.quota
}

// Slots returns how many requests the agent has in flight at most. Only Revise changes it: slots of higher numbers are
// added.
func (c *Closed) Slots() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(c.slots)
}

// Next hands the agent's next request to a slot that is free at elapsed since the stage's start, or false when there is
// nothing more to start. A slot asks when it is about to send: the answer says whether a request that starts now is
// measured.
func (c *Closed) Next(elapsed time.Duration) (Arrival, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return Arrival{}, false
	}
	c.latest = max(c.latest, elapsed) // slots race: the first to ask need not be the first to get here
	l := c.first()
	if l == nil {
		return Arrival{}, false
	}
	a := Arrival{Index: l.index, Offset: elapsed}
	var more bool
	a.Unmeasured, more = c.course.take(l.index, c.latest)
	if limits := &c.course.limits; !more || c.latest >= c.end || limits.pending && c.latest >= limits.warmupDuration {
		c.over = true
		return Arrival{}, false
	}
	if a.Unmeasured && !c.course.ended && l.next >= l.warm {
		l.warmed++
	}
	l.begin(l.next + 1)
	return a, true
}

// first returns the list whose next request comes first in the stage, nil if no list has any.
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

// Ending returns the offsets at which the measured part and the whole schedule end, as far as that is known by now: the
// last offset there is if not. Only Revise makes them later. With requests and no cool-down it is the offset of the
// last request once that was handed out.
func (c *Closed) Ending() (measured, all time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	measured, all = c.course.ending()
	return min(measured, c.end), min(all, c.end)
}

// Wake returns when a slot of the agent, counted from 0, may start a request: elapsed itself if it is active then, else
// the moment it becomes active. It returns false if it never does again. Without phases all slots are active from the
// start, or from their part of the stagger, on.
//
// The stage's slot u is active while concurrency(t) > u, so that their number is the concurrency rounded up: 2.5 are
// slots 0, 1 and 2, and 0 is none. At the instant at which the value reaches a whole number from below nothing changes;
// just after it one more is active.
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

// staggered returns elapsed, or when a slot of the agent starts if that is later: slot u of the stage's c at u/c of the
// stagger, rounded down to a nanosecond.
func (c *Closed) staggered(slot int, elapsed time.Duration) time.Duration {
	if elapsed >= c.limits.stagger {
		return elapsed
	}
	high, low := bits.Mul64(uint64(c.limits.stagger), c.slot(uint64(slot)))
	at, _ := bits.Div64(high, low, c.concurrency) // u is below c, so that it fits
	return max(elapsed, time.Duration(at))
}

// Think returns how long a slot rests after the request of an index, before it may send its next one.
func (c *Closed) Think(index uint64) time.Duration { return c.think.after(index) }

// Measure ends a warm-up until steady: requests that start from this offset on are measured, and requests and duration
// count from there. Of several calls the first counts. An offset beyond warmup_until_steady and MeasureSlack is taken
// as that one; without any call the schedule ends there. One within the stagger is taken as the stagger's end. Other
// loads ignore it.
func (c *Closed) Measure(from time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := &c.course.limits; l.pending {
		l.pending = false
		l.warmupDuration = min(max(from, l.stagger), l.warmupDuration)
	}
}

// slot returns a slot of the agent as one of the stage.
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
	panic("arrival: no such slot")
}
