package clock

import (
	"cmp"
	"slices"
	"time"
)

// Sample is one exchange of four timestamps with another machine: asked and answered on this line, received and sent on
// the other's.
type Sample struct {
	Asked    Instant
	Received Instant
	Sent     Instant
	Answered Instant
}

// Offset is what to add to an instant of this line to get the other machine's, and how wrong it can be at most.
type Offset struct {
	Nanos       int64
	Uncertainty time.Duration
}

// bounds returns the least and the largest offset that an exchange allows: the question did not arrive before it was
// asked, and the answer not before it left.
func (s Sample) bounds() (lower, upper int64) {
	return int64(s.Sent - s.Answered), int64(s.Received - s.Asked)
}

// plausible says whether the four stamps can be of one exchange, with clocks that drifted apart meanwhile.
func (s Sample) plausible() bool {
	lower, upper := s.bounds()
	return s.Answered >= s.Asked && s.Sent >= s.Received && lower-upper <= bound{at: s.Asked}.slack(s.Answered)
}

// driftDivisor bounds how fast two machines' clocks may move apart: by one part in 10,000 (100 ppm), twice what a bad
// quartz does.
const driftDivisor = 10_000

// bound is a limit of the offset at an instant.
type bound struct {
	nanos int64
	at    Instant
}

// least is the lower bound's value at another instant, and most the upper one's.
func (b bound) least(now Instant) int64 { return b.nanos - b.slack(now) }
func (b bound) most(now Instant) int64  { return b.nanos + b.slack(now) }

// slack is by how much a bound may be wrong at another instant, because the clocks drift.
func (b bound) slack(now Instant) int64 {
	age := now.Sub(b.at)
	if age < 0 {
		age = -age
	}
	return int64(age)/driftDivisor + 1
}

const (
	// remembered is how many samples an estimate is made of, and freshness how old they may be: the clocks drift
	// meanwhile.
	remembered = 64
	freshness  = 30 * time.Second
)

// midpoint is what one sample says of the offset if its two ways took the same time.
type midpoint struct {
	nanos     int64
	roundTrip time.Duration
	at        Instant
}

// Estimator makes one estimate of many samples. What it promises comes from bounds: the tightest of all samples', the
// best way there may be of another sample than the best way back (K. Marzullo, Maintaining the Time in a Distributed
// System, 1984). Within them the estimate is the mean of the midpoints of recent samples, of the half with the shorter
// round trips: jitter that is the same both ways cancels out in a mean, and queues that make one way longer show as
// long round trips. The zero value is ready. It is not safe for concurrent use.
type Estimator struct {
	lower, upper bound
	recent       []midpoint // as they came; empty: there was no usable sample
	mean         int64
	leap         time.Duration
}

// Add takes in one sample and reports whether it was usable.
func (e *Estimator) Add(s Sample) bool {
	e.leap = 0
	if !s.plausible() {
		return false
	}
	// Both bounds are of a moment between the question and the answer: dated at the question they are loosened for long
	// enough.
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

// apart is by how much the bounds of a new sample lie above those that are known, negative below: 0 if an offset is
// within both. Else a clock stood still, as that of a machine that sleeps does, and what was known is void.
func (e *Estimator) apart(lower, upper bound, now Instant) time.Duration {
	above := lower.least(now) - e.upper.most(now)
	below := e.lower.least(now) - upper.most(now)
	return time.Duration(max(above, 0) - max(below, 0))
}

// Leap returns by how much, at least, the other clock has run ahead of this one beyond any drift before the last sample
// that was added, because this one stood still; negative if the other one did. 0: the sample agrees with those before
// it.
func (e *Estimator) Leap() time.Duration { return e.leap }

// remember makes a midpoint one of the recent ones, and their mean anew.
func (e *Estimator) remember(m midpoint) {
	old := func(o midpoint) bool { return m.at.Sub(o.at) > freshness }
	e.recent = append(slices.DeleteFunc(e.recent, old), m)
	if len(e.recent) > remembered {
		e.recent = slices.Delete(e.recent, 0, 1)
	}
	quickest := slices.Clone(e.recent)
	slices.SortFunc(quickest, func(a, b midpoint) int { return cmp.Compare(a.roundTrip, b.roundTrip) })
	quickest = quickest[:(len(quickest)+1)/2]
	var sum int64 // of differences, since offsets may be large
	for _, q := range quickest {
		sum += q.nanos - m.nanos
	}
	e.mean = m.nanos + sum/int64(len(quickest))
}

// At returns the offset and its uncertainty at an instant, grown by the drift since the samples. It is false before the
// first usable sample.
func (e *Estimator) At(now Instant) (Offset, bool) {
	if len(e.recent) == 0 {
		return Offset{}, false
	}
	lower, upper := e.lower.least(now), e.upper.most(now)
	nanos := min(max(e.mean, lower), upper)
	return Offset{Nanos: nanos, Uncertainty: time.Duration(max(nanos-lower, upper-nanos))}, true
}

// There returns the other machine's instant for one of this line.
func (o Offset) There(here Instant) Instant { return here + Instant(o.Nanos) }

// Here returns this line's instant for one of the other machine.
func (o Offset) Here(there Instant) Instant { return there - Instant(o.Nanos) }
