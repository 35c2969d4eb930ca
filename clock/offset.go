package clock

import (
	"cmp"
	"slices"
	"time"
)

// Sample is one exchange with another machine. Asked and Answered are by this machine's clock, Received and Sent by the
// other machine's clock.
type Sample struct {
	Asked    Instant
	Received Instant
	Sent     Instant
	Answered Instant
}

// Offset is the nanoseconds to add to an instant of this machine to get the other machine's instant, and the largest
// possible error.
type Offset struct {
	Nanos       int64
	Uncertainty time.Duration
}

// bounds returns the smallest and the largest offset that an exchange allows: neither the question nor the answer
// arrived before it was sent.
func (s Sample) bounds() (lower, upper int64) {
	return int64(s.Sent - s.Answered), int64(s.Received - s.Asked)
}

// plausible reports whether the four timestamps can be from one exchange, allowing for drift between the clocks.
func (s Sample) plausible() bool {
	lower, upper := s.bounds()
	return s.Answered >= s.Asked && s.Sent >= s.Received && lower-upper <= bound{at: s.Asked}.slack(s.Answered)
}

// driftDivisor bounds how fast two machines' clocks may drift apart: by one part in 10,000 (100 ppm), twice the drift
// of a bad quartz.
const driftDivisor = 10_000

// bound is a bound on the offset at an instant.
type bound struct {
	nanos int64
	at    Instant
}

// least returns the value of a lower bound at another instant, most the value of an upper bound.
func (b bound) least(now Instant) int64 { return b.nanos - b.slack(now) }
func (b bound) most(now Instant) int64  { return b.nanos + b.slack(now) }

// slack returns by how much a bound may be wrong at another instant, because the clocks drift.
func (b bound) slack(now Instant) int64 { return int64(Drift(now.Sub(b.at).Abs())) }

// Drift returns how far two machines' clocks may drift apart in a time.
func Drift(in time.Duration) time.Duration { return in/driftDivisor + 1 }

const (
	// remembered is how many samples an estimate uses, and freshness how old they may be, because the clocks drift.
	remembered = 64
	freshness  = 30 * time.Second
)

// midpoint is the offset by one sample if both ways took the same time.
type midpoint struct {
	nanos     int64
	roundTrip time.Duration
	at        Instant
}

// Estimator combines many samples into one estimate. Its uncertainty comes from the tightest bounds of all samples; the
// lower and the upper bound may be from different samples (K. Marzullo, Maintaining the Time in a Distributed System,
// 1984). Within the bounds the estimate is the mean of the midpoints of recent samples, of the half with the shorter
// round trips. Jitter that is the same both ways cancels out in a mean, and queues that delay one way show as long
// round trips. The zero value is ready to use. It is not safe for concurrent use.
type Estimator struct {
	lower, upper bound
	recent       []midpoint // in order of arrival; empty: no usable sample yet
	mean         int64
	leap         time.Duration
}

// Add adds a sample and reports whether it was usable.
func (e *Estimator) Add(s Sample) bool {
	e.leap = 0
	if !s.plausible() {
		return false
	}
	// Both bounds hold at some moment between the question and the answer. Dating them at the question loosens them for
	// long enough.
	l, u := s.bounds()
	lower, upper := bound{l, s.Asked}, bound{u, s.Asked}
	if len(e.recent) > 0 {
		e.leap = e.apart(lower, upper, s.Answered)
	}
	if len(e.recent) == 0 || e.leap != 0 {
		e.lower, e.upper, e.recent = lower, upper, nil
	}
	if lower.least(s.Answered) >= e.lower.least(s.Answered) {
		e.lower = lower
	}
	if upper.most(s.Answered) <= e.upper.most(s.Answered) {
		e.upper = upper
	}
	e.remember(midpoint{l + (u-l)/2, time.Duration(u - l), s.Answered})
	return true
}

// apart returns by how much the bounds of a new sample lie above the known bounds, negative if below, and 0 if they
// overlap. If they do not overlap, a clock stood still, as on a machine that sleeps, and the known bounds are void.
func (e *Estimator) apart(lower, upper bound, now Instant) time.Duration {
	above := lower.least(now) - e.upper.most(now)
	below := e.lower.least(now) - upper.most(now)
	return time.Duration(max(above, 0) - max(below, 0))
}

// Leap returns by how much, at least, the other clock ran ahead of this one, beyond any drift, before the last added
// sample, because this clock stood still. It is negative if the other clock stood still. 0: the sample agrees with the
// earlier ones.
func (e *Estimator) Leap() time.Duration { return e.leap }

// remember adds a midpoint to the recent ones and updates their mean.
func (e *Estimator) remember(m midpoint) {
	old := func(o midpoint) bool { return m.at.Sub(o.at) > freshness }
	e.recent = append(slices.DeleteFunc(e.recent, old), m)
	if len(e.recent) > remembered {
		e.recent = slices.Delete(e.recent, 0, 1)
	}
	quickest := slices.Clone(e.recent)
	slices.SortFunc(quickest, func(a, b midpoint) int { return cmp.Compare(a.roundTrip, b.roundTrip) })
	quickest = quickest[:(len(quickest)+1)/2]
	var sum int64 // of differences, because offsets may be large
	for _, q := range quickest {
		sum += q.nanos - m.nanos
	}
	e.mean = m.nanos + sum/int64(len(quickest))
}

// At returns the offset and its uncertainty at an instant. The uncertainty includes possible drift since the samples.
// It returns false before the first usable sample.
func (e *Estimator) At(now Instant) (Offset, bool) {
	if len(e.recent) == 0 {
		return Offset{}, false
	}
	lower, upper := e.lower.least(now), e.upper.most(now)
	nanos := min(max(e.mean, lower), upper)
	return Offset{Nanos: nanos, Uncertainty: time.Duration(max(nanos-lower, upper-nanos))}, true
}

// Here converts an instant of the other machine to this machine's.
func (o Offset) Here(there Instant) Instant { return there - Instant(o.Nanos) }
