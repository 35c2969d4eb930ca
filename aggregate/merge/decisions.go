package merge

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Numbers that decisions about a run depend on, during its stages and between them.

// Interval is a percentile with its confidence interval.
type Interval struct {
	// Value is the percentile, Low and High are the ends of its interval.
	Value, Low, High time.Duration
	// Count is the number of values.
	Count uint64
}

// Interval returns the confidence interval of a percentile of a latency. It returns false as long as there are too few
// values; see histogram.Interval.
func (s *Stage) Interval(m spatev1.Metric, percentile, confidence float64) (Interval, bool) {
	s.lock()
	defer s.mu.Unlock()
	values := s.sums.Total.Values[m]
	if values == nil {
		return Interval{}, false
	}
	low, high, ok := values.Interval(percentile, confidence)
	return Interval{time.Duration(values.Percentile(percentile)), time.Duration(low), time.Duration(high),
		values.Count()}, ok
}

// Latency returns a percentile of a latency, or its mean for percentile 0. It returns false if that is not known.
// Cancelled requests have no latency, but they were slower than those that completed. They count as values above all
// others: a percentile that falls on one of them is not known, and neither is the mean if there is any.
func (s *Stage) Latency(m spatev1.Metric, percentile float64) (time.Duration, bool) {
	s.lock()
	defer s.mu.Unlock()
	return s.sums.Total.Latency(m, percentile)
}

// Latency is Stage.Latency of a part of the stage.
func (t *Tally) Latency(m spatev1.Metric, percentile float64) (time.Duration, bool) {
	values, c := t.Values[m], t.Counters
	completed, cancelled := c.GetCompleted(), c.GetCancelled()
	switch {
	case values == nil || completed == 0 || percentile == 0 && cancelled > 0:
		return 0, false
	case percentile == 0:
		return time.Duration(values.Mean()), true
	}
	// The percentile among completed requests that is the requested percentile among all.
	among := percentile * (float64(completed) + float64(cancelled)) / float64(completed)
	return time.Duration(values.Percentile(among)), among <= 100
}

// Counters returns a copy of the stage's counters so far.
func (s *Stage) Counters() *spatev1.Counters {
	s.lock()
	defer s.mu.Unlock()
	return s.sums.Total.countersNow()
}

// UnmeasuredFrames returns how many frames of unmeasured requests arrived in each of the windows [first, end). Frames
// of a snapshot of several windows count for its last window: spread evenly, they would look steady although that is
// not known.
func (s *Stage) UnmeasuredFrames(first, end uint32) []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var frames []uint64
	for number := first; number < end; number++ {
		if w := s.sums.Windows[number]; w != nil {
			frames = append(frames, w.unmeasuredFrames)
		} else {
			frames = append(frames, 0)
		}
	}
	return frames
}

// Flow counts requests, including unmeasured ones, over a part of a stage.
type Flow struct {
	// Level is the mean number of requests in flight in the half of the measured time before this part.
	Level float64
	// InFlight is the number of requests in flight at the start of this part.
	InFlight uint64
	// Started and Ended are the numbers of requests that started and ended in this part.
	Started, Ended uint64
	// Seconds is the length of this part.
	Seconds float64
}

// leastFlow is the shortest measured time whose second half is long enough for a Flow, in windows.
const leastFlow = 4

// Flow is Sums.Flow of the stage so far.
func (s *Stage) Flow() (Flow, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sums.Flow()
}

// Flow counts the requests in the second half of the time in which measured requests started. It returns false if that
// time is too short or not known, if an agent was lost, or if an agent delivered several windows as one. The time
// starts no earlier than the window after the first end of any request, because a stage without a warm-up has no level
// before that. Unmeasured requests count because the server has them in flight like all others. After a warm-up, the
// measured requests alone would first grow to their level, and in a server that is far behind, none of them may end
// before the last has started.
func (s *Sums) Flow() (Flow, bool) {
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
	f, inFlight := Flow{Seconds: float64(end - half)}, uint64(0)
	for number := range end {
		w := cmp.Or(s.Windows[uint32(number)], &Window{})
		started, ended := w.Started+w.unmeasuredStarted, w.Ended+w.unmeasuredEnded
		if number >= half {
			f.Started, f.Ended = f.Started+started, f.Ended+ended
			continue
		}
		if number >= first {
			f.Level += float64(inFlight) / float64(half-first)
		}
		inFlight += started - min(inFlight+started, ended)
	}
	f.InFlight = inFlight
	return f, true
}

// lostAny reports whether an agent was lost. No counter has the ends of the requests that it had in flight.
func (s *Sums) lostAny() bool {
	for _, a := range s.Agents {
		if a.Loss != nil {
			return true
		}
	}
	return false
}

// measuredWindows returns the whole windows [first, end) in which every agent with load started measured requests at
// its full rate. ok is false if there is none.
func (s *Sums) measuredWindows() (first, end int64, ok bool) {
	return s.WindowsOf(func(t *spatev1.Totals) (from, to *int64) { return t.FirstStartNs, t.SteadyToNs })
}

// startedIn returns how many measured requests started in a window.
func (s *Sums) startedIn(number int64) uint64 {
	if w := s.Windows[uint32(number)]; w != nil {
		return w.Started
	}
	return 0
}

// firstEnd returns the first window in which a request ended, measured or not. If none did, it returns a number above
// all windows.
func (s *Sums) firstEnd() int64 {
	first := int64(math.MaxUint32)
	for number, w := range s.Windows {
		if w.Ended+w.unmeasuredEnded > 0 {
			first = min(first, int64(number))
		}
	}
	return first
}

// Discrepancies returns how an agent's snapshots differ from its totals, in words.
func (a *Agent) Discrepancies() []string {
	if gap := a.snapshotsMissing(); gap != "" {
		return []string{gap} // with snapshots missing, the sums differ anyway
	}
	return a.differences()
}

// snapshotsMissing returns how the number of snapshots differs from the one in the totals, or "".
func (a *Agent) snapshotsMissing() string {
	want := a.Totals.GetSnapshots()
	switch {
	case a.snapshots < want:
		return fmt.Sprintf("lacks %d of its %d snapshots", want-a.snapshots, want)
	case a.snapshots > want:
		return fmt.Sprintf("has %d snapshots, but its totals say %d", a.snapshots, want)
	case a.last-a.first+1 != want || a.last != a.closing:
		return fmt.Sprintf("has %d snapshots numbered %d to %d, closed by %d: there is a gap", want, a.first,
			a.last, a.closing)
	}
	return ""
}

// differences returns how the sums of the snapshots differ from the totals, in words.
func (a *Agent) differences() (reasons []string) {
	merged, totals := measure.CountsOf(a.Counters), measure.CountsOf(a.Totals.GetCounters())
	for _, c := range measure.Counters() {
		if merged[c] != totals[c] {
			reasons = append(reasons, fmt.Sprintf("has %s %d in its snapshots, but %d in its totals", c,
				merged[c], totals[c]))
		}
	}
	counted := WindowShare{
		Tokens: merged[measure.OutputTokens], Chunks: merged[measure.Chunks],
		MicroRequests: million * merged[measure.Completed],
	}
	reasons = append(reasons, sharesDiffer(a.shared, counted)...)
	var values [measure.Count]uint64
	for _, v := range a.Totals.GetValues() {
		if measure.Known(v.GetMetric()) {
			values[v.GetMetric()] += v.GetCount()
		}
	}
	for _, m := range measure.Metrics() {
		if a.recorded[m.ID] != values[m.ID] {
			reasons = append(reasons, fmt.Sprintf("has %d values of %s in its snapshots, but %d in its totals",
				a.recorded[m.ID], m.Name, values[m.ID]))
		}
	}
	return reasons
}

// million is the number of parts into which agents divide a request among windows.
const million = 1_000_000

// sharesDiffer returns where the tokens, chunks and requests assigned to windows differ from the counted ones, in
// words.
func sharesDiffer(shared, counted WindowShare) (reasons []string) {
	for _, c := range []struct {
		of           string
		shared, want uint64
	}{
		{"output tokens", shared.Tokens, counted.Tokens},
		{"chunks", shared.Chunks, counted.Chunks},
		{"millionths of requests", shared.MicroRequests, counted.MicroRequests},
	} {
		if c.shared != c.want {
			reasons = append(reasons, fmt.Sprintf("has %d %s by window, but counted %d", c.shared, c.of, c.want))
		}
	}
	return reasons
}
