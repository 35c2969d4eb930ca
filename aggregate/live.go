package aggregate

import (
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// What a run is decided by while it goes on, and between its stages.

// Interval is a percentile with its confidence interval.
type Interval struct {
	// Value is the percentile, Low and High are the ends of its interval.
	Value, Low, High time.Duration
	// Count is the number of values.
	Count uint64
}

// Interval returns the confidence interval of a percentile of a latency, false as long as there are too few values, see
// histogram.Interval.
func (s *Stage) Interval(m spatev1.Metric, percentile, confidence float64) (Interval, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := s.total.values[m]
	if values == nil {
		return Interval{}, false
	}
	low, high, ok := values.Interval(percentile, confidence)
	return Interval{time.Duration(values.Percentile(percentile)), time.Duration(low), time.Duration(high), values.Count()}, ok
}

// Latency returns a percentile of a latency, or its mean for percentile 0, false if it is not known. Requests that were cut off
// have no latency but were slower than those that completed: they count as values beyond all others, so that a percentile which
// falls on one of them is not known, and with any of them the mean is not.
func (s *Stage) Latency(m spatev1.Metric, percentile float64) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values, completed, cut := s.total.values[m], s.total.counters.GetCompleted(), s.total.counters.GetCancelled()
	switch {
	case values == nil || completed == 0 || percentile == 0 && cut > 0:
		return 0, false
	case percentile == 0:
		return time.Duration(values.Mean()), true
	}
	// Of the completed alone, the percentile of all is this one.
	among := percentile * (float64(completed) + float64(cut)) / float64(completed)
	return time.Duration(values.Percentile(among)), among <= 100
}

// Counters returns a copy of what was counted in the stage so far.
func (s *Stage) Counters() *spatev1.Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total.countersNow()
}

// UnmeasuredTokens returns how many tokens of unmeasured requests arrived in each window from first to before end.
func (s *Stage) UnmeasuredTokens(first, end uint32) []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var tokens []uint64
	for number := first; number < end; number++ {
		if w := s.windows[number]; w != nil {
			tokens = append(tokens, w.unmeasuredTokens)
		} else {
			tokens = append(tokens, 0)
		}
	}
	return tokens
}

// Flow counts requests over a part of a stage.
type Flow struct {
	// Level is the number of measured requests in flight at the begin of the steady part, InFlight that at the begin of this one.
	Level, InFlight uint64
	// Started and Ended are the measured requests that did so in it.
	Started, Ended uint64
	// Seconds is its length.
	Seconds float64
}

// leastFlow is the shortest steady part whose half says anything, in windows.
const leastFlow = 4

// Flow counts the requests of the second half of the stage's steady windows, false if there are too few of them.
func (s *Stage) Flow() (Flow, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, end, ok := s.steadyWindows()
	if !ok {
		return Flow{}, false
	}
	for end > first && s.startedIn(end-1) == 0 {
		end-- // cool-down: nothing measured starts any more
	}
	if end-first < leastFlow {
		return Flow{}, false
	}
	half := first + (end-first)/2
	f := Flow{Level: s.inFlightAt(first), InFlight: s.inFlightAt(half), Seconds: float64(end - half)}
	for number, w := range s.windows {
		if n := int64(number); n >= half && n < end {
			f.Started += w.started
			f.Ended += w.ended
		}
	}
	return f, true
}

// startedIn is how many measured requests started in a window.
func (s *Stage) startedIn(number int64) uint64 {
	if w := s.windows[uint32(number)]; w != nil {
		return w.started
	}
	return 0
}

// inFlightAt is how many measured requests were in flight at the begin of a window.
func (s *Stage) inFlightAt(number int64) uint64 {
	var started, ended uint64
	for n, w := range s.windows {
		if int64(n) < number {
			started += w.started
			ended += w.ended
		}
	}
	return started - min(started, ended)
}
