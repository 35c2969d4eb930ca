package clock

import "time"

// Sample is one exchange of four timestamps with another machine: asked and answered on this line, received and sent on the
// other's.
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

// bounds returns the least and the largest offset that an exchange allows: the question did not arrive before it was asked, and the
// answer not before it left.
func (s Sample) bounds() (lower, upper int64) {
	return int64(s.Sent - s.Answered), int64(s.Received - s.Asked)
}

// plausible says whether the four stamps can be of one exchange, with clocks that drifted apart meanwhile.
func (s Sample) plausible() bool {
	lower, upper := s.bounds()
	return s.Answered >= s.Asked && s.Sent >= s.Received && lower-upper <= bound{at: s.Asked}.slack(s.Answered)
}

// driftDivisor bounds how fast two machines' clocks may move apart: by one part in 10,000 (100 ppm), twice what a bad quartz does.
const driftDivisor = 10_000

// bound is a limit of the offset at an instant.
type bound struct {
	nanos int64
	at    Instant
}

// slack is by how much a bound may be wrong at another instant, because the clocks drift.
func (b bound) slack(now Instant) int64 {
	age := now.Sub(b.at)
	if age < 0 {
		age = -age
	}
	return int64(age)/driftDivisor + 1
}

// Estimator keeps the tightest bounds of many samples: the best way there may be of another sample than the best way back, so that
// delays that vary cancel out sooner than by the sample with the best round trip (K. Marzullo, Maintaining the Time in a Distributed System,
// 1984). The zero value is ready. It is not safe for concurrent use.
type Estimator struct {
	lower, upper bound
	known        bool
}

// Add takes in one sample and reports whether it was usable.
func (e *Estimator) Add(s Sample) bool {
	if !s.plausible() {
		return false
	}
	lower, upper := s.bounds()
	// Both bounds are of a moment between the question and the answer: dated at the question they are loosened for long enough.
	fresh := Estimator{lower: bound{lower, s.Asked}, upper: bound{upper, s.Asked}, known: true}
	if !e.known {
		*e = fresh
		return true
	}
	now := s.Answered
	if lower-fresh.lower.slack(now) >= e.lower.nanos-e.lower.slack(now) {
		e.lower = fresh.lower
	}
	if upper+fresh.upper.slack(now) <= e.upper.nanos+e.upper.slack(now) {
		e.upper = fresh.upper
	}
	if l, u := e.at(now); l > u { // a clock stood still, as that of a machine that sleeps: what was known is void
		*e = fresh
	}
	return true
}

// At returns the offset in the middle of its bounds and its uncertainty at an instant, grown by the drift since the samples. It is false
// before the first usable sample.
func (e *Estimator) At(now Instant) (Offset, bool) {
	if !e.known {
		return Offset{}, false
	}
	lower, upper := e.at(now)
	return Offset{Nanos: lower + (upper-lower)/2, Uncertainty: time.Duration((upper-lower)/2 + 1)}, true
}

// at returns the bounds at an instant.
func (e *Estimator) at(now Instant) (lower, upper int64) {
	return e.lower.nanos - e.lower.slack(now), e.upper.nanos + e.upper.slack(now)
}

// There returns the other machine's instant for one of this line.
func (o Offset) There(here Instant) Instant { return here + Instant(o.Nanos) }

// Here returns this line's instant for one of the other machine.
func (o Offset) Here(there Instant) Instant { return there - Instant(o.Nanos) }
