package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Arrival is one request, or one session, to start.
type Arrival struct {
	// Index of the arrival in the stage. With the stage's seed it determines the content.
	Index uint64
	// Offset from the stage's start at which the arrival is due. In a closed loop: the elapsed time when its slot
	// called Next.
	Offset time.Duration
	// Unmeasured arrivals, those of warm-up and cool-down, are sent but not in the results.
	Unmeasured bool
}

// MeasureSlack is how long after warmup_until_steady a schedule continues without a call of Measure. It then ends, with
// nothing measured.
const MeasureSlack = 30 * time.Second

// limits are a load point's warm-up, ends and cool-down. The warm-up lasts until both the first warmupRequests and
// warmupDuration have passed.
type limits struct {
	requests       uint64        // measured arrivals of all agents; 0: no such end
	duration       time.Duration // span after the warm-up in which measured arrivals start; 0: no such end
	warmupRequests uint64
	warmupDuration time.Duration
	stagger        time.Duration // time in which the slots of a closed loop start, part of the warm-up
	pending        bool          // the warm-up lasts until Measure, or until warmupDuration, when the schedule ends
	cooldown       time.Duration // time of unmeasured arrivals after the measured ones
	bounded        bool          // arrivals end by themselves, as in phases and traces
	coolFrom       time.Duration // nothing is measured from here on, and arrivals end by themselves; 0: no such offset
}

// limitsOf reads a load point. If it is bounded, its arrivals end by themselves at an offset, because of phases or a
// trace.
func limitsOf(load *spatev1.LoadPoint, bounded bool, end time.Duration) (limits, error) {
	l := limits{requests: load.GetRequests(), warmupRequests: load.GetWarmupRequests(), bounded: bounded,
		duration: load.GetDuration().AsDuration(), warmupDuration: load.GetWarmupDuration().AsDuration(),
		cooldown: load.GetCooldown().AsDuration(), stagger: load.GetStagger().AsDuration()}
	if steady := load.GetWarmupUntilSteady().AsDuration(); steady > 0 {
		l.pending, l.warmupDuration = true, later(steady, MeasureSlack)
	}
	if l.requests == 0 && l.duration == 0 && !bounded {
		return limits{}, errors.New("schedule: the load never ends: set requests or duration")
	}
	err := errors.Join(checkName("split", cmp.Or(load.GetSplit(), splitRandom), splitRandom, "in_turn"),
		checkName("distribution of think times", cmp.Or(load.GetThinkTime().GetDistribution(), "constant"), "constant",
			"exponential"))
	if err != nil {
		return limits{}, err
	}
	l.warmupDuration = max(l.warmupDuration, l.stagger)
	if !bounded {
		return l, nil
	}
	return l.endingAt(end)
}

// endingAt returns the limits of a load whose arrivals end by themselves at an offset: the cool-down is their last
// part.
func (l limits) endingAt(end time.Duration) (limits, error) {
	warmup := l.warmupDuration
	if l.pending {
		warmup = 0 // it may be shorter than its limit
	}
	if (warmup > 0 || l.cooldown > 0) && end-l.cooldown <= warmup {
		return limits{}, fmt.Errorf(
			"schedule: a warm-up of %v and a cool-down of %v leave nothing of the load, which lasts %v: make them shorter",
			warmup,
			l.cooldown,
			end,
		)
	}
	if l.cooldown > 0 {
		l.coolFrom = end - l.cooldown
	}
	return l, nil
}

// later returns at + by, or math.MaxInt64 if that would overflow.
func later(at, by time.Duration) time.Duration {
	if at > math.MaxInt64-by {
		return math.MaxInt64
	}
	return at + by
}

// warmup reports whether an arrival with this index and offset belongs to the warm-up.
func (l *limits) warmup(index uint64, offset time.Duration) bool {
	return l.pending || index < l.warmupRequests || offset < l.warmupDuration
}

// leavesOut reports whether a warm-up by time leaves out requests that are made up for later, because their number is
// fixed.
func (l *limits) leavesOut() bool { return l.requests > 0 && l.warmupDuration > 0 }

// Counted reports whether the number of a share's measured arrivals is known in advance. It is if only the load's
// requests end the measured part. A warm-up by time or until steady is then allowed only in a closed loop. A cool-down
// is allowed unless it is the last part of a trace.
func Counted(load *spatev1.LoadPoint) bool {
	if load.GetRequests() == 0 || load.GetDuration().AsDuration() != 0 || len(load.GetPhases()) > 0 {
		return false
	}
	return (!timedWarmup(load) || load.GetConcurrency() > 0) &&
		(load.GetReplaySpeed() == 0 || load.GetCooldown().AsDuration() == 0)
}

// Quota returns how many arrivals a share must measure, if the load point is Counted. For an open loop the number is
// not known without the schedule if shares have changed hands, which depends on the arrivals' times, or if arrivals are
// drawn at random: see Open.Left.
func Quota(load *spatev1.LoadPoint, s Share) (arrivals uint64, known bool) {
	c := uint64(load.GetConcurrency())
	if !Counted(load) || c == 0 && (s.Changed() || load.GetSplit() == splitRandom && !s.base.Complete()) {
		return 0, false
	}
	l := limits{requests: load.GetRequests(), warmupRequests: load.GetWarmupRequests()}
	if c == 0 {
		return s.base.Below(l.warmupRequests+l.requests) - s.base.Below(l.warmupRequests), true
	}
	if timedWarmup(load) {
		l.warmupDuration = 1
	}
	return measures(s.lists(c, &l)), true
}

// timedWarmup reports whether the first measured arrival depends on time.
func timedWarmup(load *spatev1.LoadPoint) bool {
	return load.GetWarmupDuration().AsDuration() != 0 || load.GetWarmupUntilSteady().AsDuration() != 0 ||
		load.GetStagger().AsDuration() != 0
}

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
		if warmup := c.limits.warmup(index, offset); !c.ends(index, offset, warmup) {
			if !warmup {
				c.measured++
				c.last = offset
			}
			return warmup, true
		}
		c.ended, c.end = true, index
	}
	return true, offset < c.until
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

// recall classifies an arrival again that take has seen, even if the schedule has gone back before it since. A warm-up
// until steady may have ended, too.
func (c *progress) recall(index uint64, offset time.Duration) (unmeasured, more bool) {
	switch {
	case c.limits.pending:
		return true, offset < c.limits.warmupDuration
	case c.ended && index >= c.end:
		return true, offset < c.until
	default:
		return c.limits.warmup(index, offset), true
	}
}

// timer computes when the span of a load's duration ends. The span begins when the warm-up has passed: at
// warmupDuration, or at the first arrival beyond warmupRequests if that comes later.
type timer struct {
	running bool
	ends    time.Duration
}

// follow begins the span if the next arrival is the one that does. Without warm-up requests the span begins at
// warmupDuration, whenever the first arrival comes.
func (t *timer) follow(l *limits, index uint64, offset time.Duration) {
	if l.duration == 0 || l.pending || t.running || index < l.warmupRequests {
		return
	}
	begin := l.warmupDuration
	if l.warmupRequests > 0 {
		begin = max(begin, offset)
	}
	t.running = true
	t.ends = later(begin, l.duration)
}
