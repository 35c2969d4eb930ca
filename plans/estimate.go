package plans

import (
	"math"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Estimate is what can be said about a stage before it has run.
type Estimate struct {
	// Stages that it comes to at most: 1, or those of a sweep or a search.
	Stages uint32
	// Requests that each of them sends until it ends by their number, warm-up included, cool-down not. In plans of
	// sessions these are sessions.
	Requests uint64
	// Counted tells whether it ends by a number of requests. Otherwise it ends by time, and Requests is 0.
	Counted bool
	// Time in which each of them starts requests, warm-up and cool-down included.
	Time time.Duration
	// Timed tells whether that is known. It is not for a closed loop that ends by a number of requests alone.
	Timed bool
}

// EstimateOf returns what is known about a stage before it runs. Times are bounds where a stage ends by time, and
// expectations where an open loop ends by a number of requests; a warm-up until steady is taken at its longest. An end
// by `until` or `abort.error_share` is not foreseen.
func EstimateOf(s *spatev1.Stage) Estimate {
	e := Estimate{Stages: templateStages(s.GetLoad())}
	e.Requests, e.Counted = ExpectedRequests(s)
	e.Time, e.Timed = ExpectedDuration(s)
	return e
}

// templateStages returns how many stages a load point comes to at most.
func templateStages(l *spatev1.LoadPoint) uint32 {
	switch {
	case l.GetSweep() != nil:
		return l.GetSweep().GetPoints() + 2 // One request at a time, and saturated.
	case l.GetSearch() != nil:
		return l.GetSearch().GetProbes() + l.GetSearch().GetRepeats() - 1
	}
	return 1
}

// ExpectedDuration returns the time in which a stage starts requests, warm-up and cool-down included, and whether it is
// known. See EstimateOf.
func ExpectedDuration(s *spatev1.Stage) (time.Duration, bool) {
	l := s.GetLoad()
	warm := max(l.GetWarmupDuration().AsDuration(), l.GetStagger().AsDuration()) + l.GetWarmupUntilSteady().AsDuration()
	longest := math.Inf(1)
	if l.GetDuration() != nil {
		longest = (warm + l.GetDuration().AsDuration()).Seconds()
	}
	if requests, counted := ExpectedRequests(s); counted && l.GetRate() > 0 {
		longest = min(longest, max(float64(requests)/l.GetRate(), float64(l.GetRequests())/l.GetRate()+warm.Seconds()))
	}
	longest += l.GetCooldown().AsDuration().Seconds()
	if phases := timeOf(l.GetPhases()); phases > 0 {
		longest = phases.Seconds() // Their last part is the cool-down.
	}
	longest = min(longest, replayTime(s))
	if limit := l.GetAbort().GetDuration(); limit != nil {
		longest = min(longest, limit.AsDuration().Seconds())
	}
	if longest >= math.MaxInt64/float64(time.Second) {
		return 0, false
	}
	return time.Duration(longest * float64(time.Second)), true
}

// replayTime returns the seconds that a replay takes: all of its trace, or, where it ends by requests, as large a part
// of it as of its rows. Infinite: it is none, or its trace is not known.
func replayTime(s *spatev1.Stage) float64 {
	l, d := s.GetLoad(), s.GetDataset()
	if l.GetReplaySpeed() == 0 || d.GetSpan() == nil || d.GetRows() == 0 {
		return math.Inf(1)
	}
	part := 1.0
	if requests, counted := ExpectedRequests(s); counted {
		part = min(1, float64(requests)/float64(d.GetRows()))
	}
	return part * d.GetSpan().AsDuration().Seconds() / l.GetReplaySpeed()
}

// ExpectedRequests returns the requests of a stage, warm-up included, and whether they are counted: whether the stage
// ends by requests. It may end before by its duration.
func ExpectedRequests(s *spatev1.Stage) (uint64, bool) {
	l := s.GetLoad()
	if l.GetRequests() == 0 {
		return 0, false
	}
	return l.GetWarmupRequests() + l.GetRequests(), true
}
