package schedule

import (
	"math"
	"time"
)

// progress follows arrivals through a load's warm-up, measured part and cool-down.
//
//	warm-up ----> measured ----> cool-down ----> over
//
// The measured part begins at the first arrival that the limits do not count as warm-up. It ends with the load's
// requests, at the end of its duration, or where the cool-down of phases or a trace begins, whichever comes first. The
// cool-down begins at the offset of the last measured arrival if the number of requests ended the measured part, and at
// the end of the span if the duration did.
type progress struct {
	limits   limits
	quota    uint64 // measured arrivals that end the measured part, if limits.requests is set
	timer    timer
	measured uint64
	first    uint64        // index of the first measured arrival, if there is one
	last     time.Duration // offset of the last measured arrival
	ended    bool          // the measured part has ended
	end      uint64        // index of the first arrival after the measured part
	until    time.Duration // end of the cool-down
}

// more sets how many measured arrivals end the measured part. If it has ended with fewer, it continues.
func (c *progress) more(quota uint64) {
	c.ended = c.ended && (c.limits.requests == 0 || quota <= c.measured)
	c.quota = quota
}

// take classifies the next arrival: whether it is unmeasured, and false for more if it lies beyond the end. Offsets
// must not descend. If recall is used, indices must ascend.
func (c *progress) take(index uint64, offset time.Duration) (unmeasured, more bool) {
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
func (c *progress) measure(index uint64, offset time.Duration) {
	if c.measured == 0 {
		c.first = index
	}
	c.measured++
	c.last = offset
}

// ends reports whether the measured part ends before an arrival. If so, it sets the end of the cool-down.
func (c *progress) ends(index uint64, offset time.Duration, warmup bool) bool {
	l := &c.limits
	c.timer.follow(l, index, offset)
	measured, all := c.ending()
	switch {
	case offset >= measured:
		c.until = all
	case !warmup && l.requests != 0 && c.quota == 0: // nothing to measure: the cool-down begins at once
		c.until = later(offset, l.cooldown)
	default:
		return false
	}
	return true
}

// ending returns the offsets at which the measured part and the following cool-down end. An offset that is not known
// yet is math.MaxInt64.
func (c *progress) ending() (measured, all time.Duration) {
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

// recall classifies an arrival again that take has seen. A warm-up until steady may have ended since.
func (c *progress) recall(index uint64, offset time.Duration) (unmeasured, more bool) {
	switch {
	case c.limits.pending:
		return true, offset < c.limits.warmupDuration
	case c.ended && index >= c.end:
		return true, offset < c.until
	default:
		return c.measured == 0 || index < c.first, true
	}
}

// timer computes when the span of a load's duration ends. The span begins when the warm-up has passed: at
// warmupDuration, or at the first arrival beyond warmupRequests if that comes later.
type timer struct {
	running bool
	ends    time.Duration
}

// follow begins the span if the next arrival is the one that does.
func (t *timer) follow(l *limits, index uint64, offset time.Duration) {
	if l.duration != 0 && !l.pending && !t.running && index >= l.warmupRequests {
		t.start(l, offset)
	}
}

// start begins the span. Without warm-up requests the span begins at warmupDuration, whenever the first arrival comes.
func (t *timer) start(l *limits, offset time.Duration) {
	begin := l.warmupDuration
	if l.warmupRequests > 0 {
		begin = max(begin, offset)
	}
	t.running = true
	t.ends = later(begin, l.duration)
}
