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

// Offset returns the estimate of one sample. The two ways of the message may take any share of the round trip, so half of the
// round trip bounds the error (RFC 5905, section 8: offset and root distance).
func (s Sample) Offset() Offset {
	theirs := (int64(s.Received-s.Asked) + int64(s.Sent-s.Answered)) / 2
	return Offset{Nanos: theirs, Uncertainty: s.roundTrip()/2 + 1}
}

// roundTrip is the time the message spent under way.
func (s Sample) roundTrip() time.Duration {
	return s.Answered.Sub(s.Asked) - s.Sent.Sub(s.Received)
}

// plausible says whether the four stamps can be of one exchange.
func (s Sample) plausible() bool {
	return s.Answered >= s.Asked && s.Sent >= s.Received && s.roundTrip() >= 0
}

// driftPerSecond bounds how fast two machines' clocks may move apart: 100 ppm, twice what a bad quartz does.
const driftPerSecond = 100 * time.Microsecond

// Estimator keeps the best of many samples. The zero value is ready. It is not safe for concurrent use.
type Estimator struct {
	best  Offset
	at    Instant
	known bool
}

// Add takes in one sample and reports whether it was usable.
func (e *Estimator) Add(s Sample) bool {
	if !s.plausible() {
		return false
	}
	fresh := s.Offset()
	aged, known := e.At(s.Answered)
	if !known || fresh.Uncertainty <= aged.Uncertainty {
		e.best, e.at, e.known = fresh, s.Answered, true
	}
	return true
}

// At returns the offset and its uncertainty at an instant, grown by the drift since the best sample. It is false before the
// first usable sample.
func (e *Estimator) At(now Instant) (Offset, bool) {
	if !e.known {
		return Offset{}, false
	}
	age := now.Sub(e.at)
	if age < 0 {
		age = -age
	}
	drift := time.Duration(age.Seconds() * float64(driftPerSecond))
	return Offset{Nanos: e.best.Nanos, Uncertainty: e.best.Uncertainty + drift}, true
}

// There returns the other machine's instant for one of this line.
func (o Offset) There(here Instant) Instant { return here + Instant(o.Nanos) }

// Here returns this line's instant for one of the other machine.
func (o Offset) Here(there Instant) Instant { return there - Instant(o.Nanos) }
