package arrival

import (
	"math"
	"time"
)

// course follows arrivals through a load's warm-up, measured part and cool-down.
//
//	warm-up ----> measured ----> cool-down ----> over
//
// The measured part begins at the first arrival that the limits do not call warm-up. It ends with the load's requests,
// at the end of its duration, or where the cool-down of phases or a trace begins, whichever is first. The cool-down
// begins at the offset of the last measured arrival if their number ended them, and at the end of the span if that did.
type course struct {
	limits   limits
	quota    uint64 // measured arrivals that end the measured part, if limits.requests is set
	timer    timer
	measured uint64
	first    uint64        // index of the first measured arrival, if there is one
	last     time.Duration // offset of the last measured arrival
	ended    bool          // the measured part
	end      uint64        // index of the first arrival behind it
	until    time.Duration // end of the cool-down
}

// more sets how many measured arrivals end the measured part. If it had ended with fewer, it goes on.
func (c *course) more(quota uint64) {
	c.ended = c.ended && (c.limits.requests == 0 || quota <= c.measured)
	c.quota = quota
}

// take takes in the next arrival, of an offset not before the last one's and, where recall is asked, of an index above.
// It says whether it is unmeasured, and false if it lies beyond the end.
func (c *course) take(index uint64, offset time.Duration) (unmeasured, more bool) {
	if !c.ended {
		warmup := c.limits.warmup(index, offset)
		if !c.ends(index, offset, warmup) {
			if !warmup {
				c.measure(index, offset)
			}
			return warmup, true
		}
		c.ended, c.end = true, index
	}
	return true, offset < c.until
}

// measure counts a measured arrival.
func (c *course) measure(index uint64, offset time.Duration) {
	if c.measured == 0 {
		c.first = index
	}
	c.measured++
	c.last = offset
}

// ends says whether the measured part ends before an arrival, and sets the end of the cool-down then.
func (c *course) ends(index uint64, offset time.Duration, warmup bool) bool {
	l := &c.limits
	c.timer.follow(l, index, offset)
	measured, all := c.ending()
	switch {
	case offset >= measured:
		c.until = all
	case !warmup && l.requests != 0 && c.quota == 0: // nothing to measure: the cool-down takes its place
		c.until = later(offset, l.cooldown)
	default:
		return false
	}
	return true
}

// ending returns the offsets at which the measured part and the cool-down behind it end, as far as that is known by
// now: the last offset there is if not.
func (c *course) ending() (measured, all time.Duration) {
	l := &c.limits
	measured, all = math.MaxInt64, math.MaxInt64
	if l.coolFrom > 0 {
		measured = l.coolFrom
	}
	if c.timer.running && c.timer.ends < measured {
		measured, all = c.timer.ends, later(c.timer.ends, l.cooldown)
	}
	if l.requests != 0 && c.measured > 0 && c.measured == c.quota && c.last < measured {
		measured, all = c.last, later(c.last, l.cooldown)
	}
	return measured, all
}

// recall says again what take said about an arrival that it has taken in, with a warm-up that may have ended since.
func (c *course) recall(index uint64, offset time.Duration) (unmeasured, more bool) {
	switch {
	case c.limits.pending:
		return true, offset < c.limits.warmupDuration
	case c.ended && index >= c.end:
		return true, offset < c.until
	default:
		return c.measured == 0 || index < c.first, true
	}
}

// timer knows when the span of a load's duration is over. The span begins when the warm-up has passed: at
// warmupDuration, or at the first arrival beyond warmupRequests if that comes later.
type timer struct {
	running bool
	ends    time.Duration
}

// follow takes in the next arrival, which may be the one that begins the span.
func (t *timer) follow(l *limits, index uint64, offset time.Duration) {
	if l.duration != 0 && !l.pending && !t.running && index >= l.warmupRequests {
		t.start(l, offset)
	}
}

// start begins the span. Without warm-up requests it begins at warmupDuration, whenever the first arrival comes.
func (t *timer) start(l *limits, offset time.Duration) {
	begin := l.warmupDuration
	if l.warmupRequests > 0 {
		begin = max(begin, offset)
	}
	t.running = true
	t.ends = later(begin, l.duration)
}
