package schedule

import (
	"fmt"
	"math"
	"sort"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// phase is a span in which a rate or a concurrency changes evenly or is constant. Its end is exclusive.
type phase struct {
	begin, length time.Duration
	from, to      float64
}

// newPhases reads phases with values from 0 to most. At least one value must be above 0, unless the list is empty.
func newPhases(list []*spatev1.Phase, most float64) ([]phase, error) {
	var phases []phase
	var end time.Duration
	largest := 0.0
	for i, m := range list {
		p, err := newPhase(m, end, most)
		if err != nil {
			return nil, fmt.Errorf("schedule: phase %d: %w", i, err)
		}
		end = p.end()
		largest = max(largest, p.from, p.to)
		phases = append(phases, p)
	}
	if len(phases) > 0 && largest == 0 {
		return nil, fmt.Errorf(
			"schedule: all %d phases are 0, so no request would start: set at least one value above 0", len(phases))
	}
	return phases, nil
}

// newPhase reads a phase that begins at an offset.
func newPhase(m *spatev1.Phase, begin time.Duration, most float64) (phase, error) {
	length, err := span("duration", m.GetDuration())
	if err != nil {
		return phase{}, err
	}
	p := phase{begin: begin, length: length, from: m.GetFrom(), to: m.GetFrom()}
	if m != nil && m.To != nil {
		p.to = m.GetTo()
	}
	if length == 0 || length >= math.MaxInt64-begin {
		return phase{}, fmt.Errorf("its duration is %v: it must be above 0, and all phases together below 292 years",
			length)
	}
	for _, value := range []float64{p.from, p.to} {
		if !(value >= 0 && value <= most) {
			return phase{}, fmt.Errorf("a value is %v: it must be from 0 to %.0e", value, most)
		}
	}
	return p, nil
}

// end returns the offset at which the phase ends.
func (p *phase) end() time.Duration { return p.begin + p.length }

// value returns the phase's value at an offset within it. The value is monotone.
func (p *phase) value(at time.Duration) float64 {
	x := float64(at-p.begin) / float64(p.length)
	return p.from + float64((p.to-p.from)*x)
}

// firstAbove returns the first offset from at on at which the phase's value is above u, and false if there is no such
// offset.
func (p *phase) firstAbove(u float64, at time.Duration) (time.Duration, bool) {
	at = max(at, p.begin)
	if p.value(at) > u {
		return at, true
	}
	if p.value(p.end()-1) <= u {
		return 0, false
	}
	// The value rises: not above u at 'at', above u at the last nanosecond.
	n := sort.Search(int(p.end()-1-at), func(i int) bool { return p.value(at+time.Duration(i)) > u })
	return at + time.Duration(n), true
}
