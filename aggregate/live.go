package aggregate

import (
	"math"
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
	return Interval{time.Duration(values.Percentile(percentile)), time.Duration(low), time.Duration(high),
		values.Count()}, ok
}

// Latency returns a percentile of a latency, or its mean for percentile 0, false if it is not known. Requests that were
// cut off have no latency but were slower than those that completed: they count as values beyond all others, so that a
// percentile which falls on one of them is not known, and with any of them the mean is not.
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

// UnmeasuredFrames returns how many frames of unmeasured requests arrived in each window from first to before end.
// Those of a snapshot of several windows stand at its last one: shared out evenly they would look steady, which nobody
// knows.
func (s *Stage) UnmeasuredFrames(first, end uint32) []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var frames []uint64
	for number := first; number < end; number++ {
		if w := s.windows[number]; w != nil {
			frames = append(frames, w.unmeasuredFrames)
		} else {
			frames = append(frames, 0)
		}
	}
	return frames
}

// Flow counts requests, unmeasured ones too, over a part of a stage.
type Flow struct {
	// Level is the mean number of requests in flight in the measured part before this part of it.
	Level float64
	// InFlight is the number of requests in flight when this part began.
	InFlight uint64
	// Started and Ended are the requests that did so in it.
	Started, Ended uint64
	// Seconds is its length.
	Seconds float64
}

// leastFlow is the shortest measured part whose half says anything, in windows.
const leastFlow = 4

// Flow counts the requests of the second half of the time in which measured ones started, false if that is too short,
// if an agent did not say when it was, or if an agent was lost or delivered several windows as one. It begins when the
// first request of all has ended, if that is later: without a warm-up a stage has no level before. Unmeasured requests
// count, because the server has them in flight like all others: behind a warm-up the measured ones alone grow to their
// level first, and in a server that is far behind none of them may end before the last has started.
func (s *Stage) Flow() (Flow, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, end, ok := s.measuredWindows()
	if !ok || len(s.spans) > 0 || s.lostAny() {
		return Flow{}, false
	}
	first = max(first, s.firstEnd()+1)
	for end > first && s.startedIn(end-1) == 0 {
		end-- // cool-down: nothing measured starts any more
	}
	if end-first < leastFlow {
		return Flow{}, false
	}
	half := first + (end-first)/2
	f := Flow{InFlight: s.inFlightAt(half), Seconds: float64(end - half)}
	for number := first; number < half; number++ {
		f.Level += float64(s.inFlightAt(number)) / float64(half-first)
	}
	startedBefore, endedBefore := s.flowUntil(half)
	started, ended := s.flowUntil(end)
	f.Started, f.Ended = started-startedBefore, ended-endedBefore
	return f, true
}

// lostAny says whether an agent was lost: what it had in flight never ended for anybody to count.
func (s *Stage) lostAny() bool {
	for _, a := range s.agents {
		if a.loss != nil {
			return true
		}
	}
	return false
}

// measuredWindows are the whole windows from first to before end in which every agent with load started measured
// requests at its full rate, false if there are none.
func (s *Stage) measuredWindows() (first, end int64, ok bool) {
	return s.windowsOf(func(t *spatev1.Totals) (from, to *int64) { return t.FirstStartNs, t.SteadyToNs })
}

// startedIn is how many measured requests started in a window.
func (s *Stage) startedIn(number int64) uint64 {
	if w := s.windows[uint32(number)]; w != nil {
		return w.started
	}
	return 0
}

// firstEnd is the first window in which a request ended, measured or not; beyond all windows if none did.
func (s *Stage) firstEnd() int64 {
	first := int64(math.MaxUint32)
	for number, w := range s.windows {
		if w.ended+w.unmeasuredEnded > 0 {
			first = min(first, int64(number))
		}
	}
	return first
}

// flowUntil counts the requests, unmeasured ones too, that started and ended before a window.
func (s *Stage) flowUntil(number int64) (started, ended uint64) {
	for n, w := range s.windows {
		if int64(n) < number {
			started += w.started + w.unmeasuredStarted
			ended += w.ended + w.unmeasuredEnded
		}
	}
	return started, ended
}

// inFlightAt is how many requests, unmeasured ones too, were in flight at the begin of a window.
func (s *Stage) inFlightAt(number int64) uint64 {
	started, ended := s.flowUntil(number)
	return started - min(started, ended)
}
