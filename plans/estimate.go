package plans

import (
	"math"
	"time"

	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Estimate is what is known about a stage before it runs. If the stage is a template, Requests and Time are those of
// each stage that the template becomes.
type Estimate struct {
	// Stages is the most stages that it becomes: 1, or those of a template.
	Stages uint32
	// Requests sent until a stage ends by their number. They include the warm-up, but not the cool-down. In plans with
	// sessions these are sessions.
	Requests uint64
	// Counted reports whether a stage ends by a number of requests. Otherwise it ends by time, and Requests is 0.
	Counted bool
	// Time in which a stage starts requests, including warm-up and cool-down.
	Time time.Duration
	// Timed reports whether Time is known. It is not known for a closed loop that ends only by a number of requests.
	Timed bool
}

// EstimateOf returns what is known about a stage before it runs. Time is an upper bound for a stage that ends by time,
// and an expectation for an open loop that ends by a number of requests. A warm-up until steady counts with its longest
// duration. Ends by `until` or `abort.error_share` are not considered.
func EstimateOf(s *spatev1.Stage) Estimate {
	e := Estimate{Stages: loadpoint.TemplateStages(s.GetLoad())}
	e.Requests, e.Counted = ExpectedRequests(s)
	e.Time, e.Timed = ExpectedDuration(s)
	return e
}

// ExpectedDuration returns the time in which a stage starts requests, including warm-up and cool-down, and whether that
// time is known. See EstimateOf. It is not known if max_in_flight may hold back requests that must all be sent.
func ExpectedDuration(s *spatev1.Stage) (time.Duration, bool) {
	l := s.GetLoad()
	warm := max(l.GetWarmupDuration().AsDuration(), l.GetStagger().AsDuration()) + l.GetWarmupUntilSteady().AsDuration()
	longest := math.Inf(1)
	if l.GetDuration() != nil {
		longest = (warm + l.GetDuration().AsDuration()).Seconds()
	}
	requests, counted := ExpectedRequests(s)
	heldBack := counted && l.GetMaxInFlight() > 0
	if counted && l.GetRate() > 0 && !heldBack {
		longest = min(longest, max(float64(requests)/l.GetRate(), float64(l.GetRequests())/l.GetRate()+warm.Seconds()))
	}
	longest += l.GetCooldown().AsDuration().Seconds()
	if phases := loadpoint.Time(l.GetPhases()); phases > 0 {
		longest = phases.Seconds() // The cool-down is their last part.
	}
	if !heldBack {
		longest = min(longest, replayTime(s))
	}
	if limit := l.GetAbort().GetDuration(); limit != nil {
		longest = min(longest, limit.AsDuration().Seconds())
	}
	if longest >= math.MaxInt64/float64(time.Second) {
		return 0, false
	}
	return time.Duration(longest * float64(time.Second)), true
}

// replayTime returns the seconds that a replay takes: the span of its trace, or, if the replay ends by requests, the
// same part of the span as of the rows. It returns +Inf if the stage is not a replay or its trace is not known.
func replayTime(s *spatev1.Stage) float64 {
	l, d := s.GetLoad(), rowsOf{s.GetDataset(), s.GetPartDatasets()}.trace()
	if l.GetReplaySpeed() == 0 || d.GetSpan() == nil || d.GetRows() == 0 {
		return math.Inf(1)
	}
	part := 1.0
	if requests, counted := ExpectedRequests(s); counted {
		part = min(1, float64(requests)/float64(d.GetRows()))
	}
	return part * d.GetSpan().AsDuration().Seconds() / l.GetReplaySpeed()
}

// ExpectedRequests returns the requests of a stage, including its warm-up, and whether the stage ends by a number of
// requests. Such a stage may also end earlier, by its duration.
func ExpectedRequests(s *spatev1.Stage) (uint64, bool) {
	l := s.GetLoad()
	if l.GetRequests() == 0 {
		return 0, false
	}
	return l.GetWarmupRequests() + l.GetRequests(), true
}
