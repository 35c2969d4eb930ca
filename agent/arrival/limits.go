package arrival

import (
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Arrival is one request that is to start.
type Arrival struct {
	// Index of the request in the stage: with the stage's seed it decides the content.
	Index uint64
	// Offset from the stage's start at which the plan wants it to start. Closed loop: the elapsed time at which its slot
	// asked.
	Offset time.Duration
	// Unmeasured requests are sent and left out of the results: those of warm-up and cool-down.
	Unmeasured bool
}

// limits are a load point's warm-up and ends. The warm-up lasts until both have passed: the first warmupRequests and
// warmupDuration.
type limits struct {
	requests       uint64        // measured requests of all agents; 0: no such end
	duration       time.Duration // span after the warm-up in which requests start; 0: no such end
	warmupRequests uint64
	warmupDuration time.Duration
}

// limitsOf reads a load point.
func limitsOf(load *spatev1.LoadPoint) (limits, error) {
	duration, err := span("duration", load.GetDuration())
	if err != nil {
		return limits{}, err
	}
	warmup, err := span("warmup_duration", load.GetWarmupDuration())
	if err != nil {
		return limits{}, err
	}
	l := limits{
		requests:       load.GetRequests(),
		duration:       duration,
		warmupRequests: load.GetWarmupRequests(),
		warmupDuration: warmup,
	}
	const most = math.MaxInt64
	if l.requests > most || l.warmupRequests > most-l.requests {
		return limits{}, fmt.Errorf("arrival: %d and %d requests are more than can be counted", l.requests, l.warmupRequests)
	}
	if l.requests == 0 && l.duration == 0 {
		return limits{}, errors.New("arrival: the load never ends: give it requests or a duration")
	}
	return l, nil
}

// span reads a duration that must not be negative; unset is 0.
func span(name string, d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, fmt.Errorf("arrival: %s: %w", name, err)
	}
	if d.AsDuration() < 0 {
		return 0, fmt.Errorf("arrival: %s is %v: it must not be negative", name, d.AsDuration())
	}
	return d.AsDuration(), nil
}

// warmup says whether a request of this index at this offset belongs to the warm-up.
func (l *limits) warmup(index uint64, offset time.Duration) bool {
	return index < l.warmupRequests || offset < l.warmupDuration
}

// timer knows when the span of a load's duration is over. The span begins when the warm-up has passed: at warmupDuration, or
// at the first request beyond warmupRequests if that comes later.
type timer struct {
	running bool
	ends    time.Duration
}

// over takes in the next request, at an offset not before the last one's, and says whether it lies beyond the end.
func (t *timer) over(l *limits, index uint64, offset time.Duration) bool {
	if l.duration == 0 {
		return false
	}
	if !t.running && index >= l.warmupRequests {
		t.start(l, offset)
	}
	return t.running && offset >= t.ends
}

// start begins the span. Without warm-up requests it begins at warmupDuration, whenever the first request comes.
func (t *timer) start(l *limits, offset time.Duration) {
	begin := l.warmupDuration
	if l.warmupRequests > 0 {
		begin = max(begin, offset)
	}
	t.running = true
	t.ends = begin + l.duration
	if t.ends < begin {
		t.ends = math.MaxInt64
	}
}
