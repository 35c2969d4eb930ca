package schedule

import (
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

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

// limitsOf reads a load point. bounded says that the load ends by itself, because of phases or a trace.
func limitsOf(load *spatev1.LoadPoint, bounded bool) (limits, error) {
	l := limits{requests: load.GetRequests(), warmupRequests: load.GetWarmupRequests(), bounded: bounded}
	var steady time.Duration
	for _, s := range []struct {
		name  string
		value *durationpb.Duration
		into  *time.Duration
	}{
		{"duration", load.GetDuration(), &l.duration},
		{"warmup_duration", load.GetWarmupDuration(), &l.warmupDuration},
		{"warmup_until_steady", load.GetWarmupUntilSteady(), &steady},
		{"cooldown", load.GetCooldown(), &l.cooldown},
		{"stagger", load.GetStagger(), &l.stagger},
	} {
		var err error
		if *s.into, err = span(s.name, s.value); err != nil {
			return limits{}, fmt.Errorf("schedule: %w", err)
		}
	}
	if l.stagger > 0 && load.GetConcurrency() == 0 {
		return limits{}, errors.New("schedule: stagger is for closed loops only: remove stagger")
	}
	if steady > 0 {
		if l.warmupRequests > 0 || l.warmupDuration > 0 {
			return limits{}, errors.New(
				"schedule: warmup_until_steady replaces warmup_requests and warmup_duration: set only one kind of warm-up",
			)
		}
		l.pending, l.warmupDuration = true, later(steady, MeasureSlack)
	}
	l.warmupDuration = max(l.warmupDuration, l.stagger)
	const most = math.MaxInt64
	if l.requests > most || l.warmupRequests > most-l.requests {
		return limits{}, fmt.Errorf("schedule: %d and %d requests are more than can be counted", l.requests,
			l.warmupRequests)
	}
	if l.requests == 0 && l.duration == 0 && !bounded {
		return limits{}, errors.New("schedule: the load never ends: set requests or duration")
	}
	return l, nil
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

// span reads a duration, which must not be negative. Unset is 0.
func span(name string, d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	if d.AsDuration() < 0 {
		return 0, fmt.Errorf("%s is %v: it must not be negative", name, d.AsDuration())
	}
	return d.AsDuration(), nil
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
