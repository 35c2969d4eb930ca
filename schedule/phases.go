package schedule

import (
	"fmt"
	"math"
	"sort"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
)

// shape is how a phase's value changes from its start to its end.
type shape uint8

const (
	linear shape = iota
	exponentially
	steps
)

// leastExponential is the smallest value at which an exponential phase may begin or end. An exponential cannot reach 0.
const leastExponential = 1e-9

// mostSteps is the largest number of steps of a phase.
const mostSteps = 1_000_000

// phase is a span in which a rate or a concurrency changes in one direction or is constant. Its end is exclusive.
type phase struct {
	begin, length time.Duration
	from, to      float64
	shape         shape
	steps         int
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
			"schedule: all %d phases are 0, so no request would start: set at least one value above 0",
			len(phases),
		)
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
	return p.shaped(m)
}

// shaped reads a phase's shape.
func (p phase) shaped(m *spatev1.Phase) (phase, error) {
	switch m.GetShape() {
	case "", "linear":
		return p, nil
	case "exponential":
		p.shape = exponentially
		if least := min(p.from, p.to); least < leastExponential {
			return phase{}, fmt.Errorf(
				"an exponential phase starts or ends at %v: use a value of at least %v, or shape: linear",
				least,
				leastExponential,
			)
		}
		return p, nil
	case "steps":
		p.shape, p.steps = steps, int(m.GetSteps())
		if p.steps < 2 || p.steps > mostSteps || time.Duration(p.steps) > p.length {
			return phase{}, fmt.Errorf("it has %d steps in %v: use 2 to %d, each of at least a nanosecond",
				p.steps, p.length, mostSteps)
		}
		return p, nil
	default:
		return phase{}, fmt.Errorf("unknown shape %q: use linear, exponential or steps", m.GetShape())
	}
}

// end returns the offset at which the phase ends.
func (p *phase) end() time.Duration { return p.begin + p.length }

// step returns the value of step j. The values are evenly spaced, from the phase's start value to its end value.
func (p *phase) step(j int) float64 {
	if j == p.steps-1 {
		return p.to
	}
	return p.from + float64((p.to-p.from)*float64(j)/float64(p.steps-1))
}

// stepBegin returns when step j begins. Steps are equally long, except for rounding down to a nanosecond.
func (p *phase) stepBegin(j int) time.Duration {
	n := time.Duration(p.steps)
	return p.begin + p.length/n*time.Duration(j) + p.length%n*time.Duration(j)/n
}

// value returns the phase's value at an offset within it. The value is monotone, except in the last bit of an
// exponential phase.
func (p *phase) value(at time.Duration) float64 {
	x := float64(at-p.begin) / float64(p.length)
	switch p.shape {
	case exponentially:
		return p.from * draw.Exp(float64(draw.Log(p.to/p.from)*x))
	case steps:
		return p.step(p.stepAt(at))
	default:
		return p.from + float64((p.to-p.from)*x)
	}
}

// stepAt returns the step at an offset. The float estimate is off by at most one, which is corrected.
func (p *phase) stepAt(at time.Duration) int {
	j := int(float64(at-p.begin) / float64(p.length) * float64(p.steps))
	j = min(max(j, 0), p.steps-1)
	if at < p.stepBegin(j) {
		j--
	}
	if j+1 < p.steps && at >= p.stepBegin(j+1) {
		j++
	}
	return j
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
