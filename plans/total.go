package plans

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// Total is the sum of what is known about stages before they run.
type Total struct {
	Stages   uint64
	AtMost   bool // templates may become fewer stages
	arrivals Sum
	Time     Sum  // in seconds
	byServer bool // the time is that which the server takes for a number of requests
}

// Sum is a sum whose parts may be upper bounds, approximate, or unknown.
type Sum struct {
	Known                  float64
	AtMost, About, Unknown bool
}

// TotalOf sums up stages. The pauses between them are part of their time.
func TotalOf(stages []*spatev1.Stage) *Total {
	all := &Total{Time: TimeOf(Planned(stages)), byServer: len(stages) > 0}
	for _, s := range stages {
		e := EstimateOf(s)
		one := arrivals(s, e)
		if e.Stages > 1 {
			all.AtMost, one = true, one.times(float64(e.Stages))
		}
		all.Stages += uint64(e.Stages)
		all.arrivals.Add(one)
		all.byServer = all.byServer && e.Counted && !e.Timed && s.GetLoad().GetConcurrency() > 0
	}
	return all
}

// Planned returns what followers of a run learn of its stages before they start.
func Planned(stages []*spatev1.Stage) []*spatev1.PlannedStage {
	var out []*spatev1.PlannedStage
	for _, s := range stages {
		e, l := EstimateOf(s), s.GetLoad()
		p := &spatev1.PlannedStage{
			Target: s.GetTarget().GetName(), Workload: s.GetWorkload().GetName(), Load: loadpoint.Words(l),
			Stages: e.Stages, ExpectedRequests: e.Requests, Concurrency: l.GetConcurrency(), Pause: s.GetPause(),
			AtMost: l.GetUntil() != nil || l.GetAbort() != nil || l.GetWarmupUntilSteady() != nil || e.Counted &&
				l.GetDuration() != nil,
			About: e.Counted && l.GetRate() > 0 && l.GetArrival() != "constant",
		}
		if e.Timed {
			p.Expected = durationpb.New(e.Time)
		}
		out = append(out, p)
	}
	return out
}

// TimeOf returns how long stages take, in seconds, without the time that they take to be prepared and to drain. The
// pauses between them are part of it.
func TimeOf(stages []*spatev1.PlannedStage) Sum {
	var all Sum
	for i, s := range stages {
		one, pauses := Starting(s), s.GetStages()
		if s.GetStages() > 1 {
			one = one.times(float64(s.GetStages()))
		}
		if i == 0 {
			pauses = max(1, pauses) - 1
		}
		one.Known += float64(pauses) * s.GetPause().AsDuration().Seconds()
		all.Add(one)
	}
	return all
}

// Starting returns the time in which a stage starts requests, in seconds.
func Starting(s *spatev1.PlannedStage) Sum {
	return Sum{
		Known: s.GetExpected().AsDuration().Seconds(), Unknown: s.GetExpected() == nil,
		AtMost: s.GetAtMost(), About: s.GetAbout(),
	}
}

// arrivals returns how many requests or sessions a stage starts. For a closed loop that ends by time, that depends on
// the server and is unknown.
func arrivals(s *spatev1.Stage, e Estimate) Sum {
	l := s.GetLoad()
	limits := l.GetDuration() != nil || l.GetAbort() != nil || l.GetUntil() != nil // it may end earlier
	byTime := Sum{Unknown: true}
	switch seconds := (e.Time - l.GetCooldown().AsDuration()).Seconds(); {
	case l.GetConcurrency() > 0 || l.GetReplaySpeed() > 0 || loadpoint.IsTemplate(l):
	case len(l.GetPhases()) > 0:
		byTime = Sum{Known: area(l.GetPhases()), About: true}
	case l.GetRate() > 0 && e.Timed:
		byTime = Sum{Known: l.GetRate() * seconds, About: true}
	}
	switch {
	case !e.Counted:
		return byTime
	case limits && (byTime.Unknown || byTime.Known >= float64(e.Requests)):
		return Sum{Known: float64(e.Requests), AtMost: true}
	case limits:
		return byTime
	}
	return Sum{Known: float64(e.Requests)}
}

// area returns the number of requests in phases of a rate: the sum of their integrals.
func area(phases []*spatev1.Phase) float64 {
	total := 0.0
	for _, p := range phases {
		from, to := p.GetFrom(), p.GetFrom()
		if p.To != nil {
			to = p.GetTo()
		}
		total += (from + to) / 2 * p.GetDuration().AsDuration().Seconds()
	}
	return total
}

// Add adds another sum, with its uncertainty.
func (s *Sum) Add(other Sum) {
	s.AtMost, s.About = s.AtMost || other.AtMost, s.About || other.About
	s.Unknown = s.Unknown || other.Unknown
	s.Known += other.Known
}

// times returns the sum over that many stages, or fewer.
func (s Sum) times(stages float64) Sum {
	s.Known *= stages
	s.AtMost = true
	return s
}

// Bounds as they are written in a sentence and in a table.
var (
	InWords = bounds{"at least ", "at most ", "about "}
	InTable = bounds{"≥", "≤", "~"}
)

type bounds struct{ atLeast, atMost, about string }

// Say formats a sum whose known part is number.
func (b bounds) Say(s Sum, number string) string {
	switch {
	case s.Unknown && (s.Known == 0 || s.AtMost):
		return "n/a"
	case s.Unknown:
		return b.atLeast + number
	case s.AtMost:
		return b.atMost + number
	case s.About:
		return b.about + number
	}
	return number
}

// StageWords returns the number of stages: "3 stages", "up to 8 stages".
func (o *Total) StageWords() string {
	if o.AtMost {
		return "up to " + words.Count(o.Stages, "stage")
	}
	return words.Count(o.Stages, "stage")
}

// ArrivalWords returns the number of requests or sessions, or n/a.
func (o *Total) ArrivalWords(b bounds) string {
	return b.Say(o.arrivals, words.Thousands(uint64(math.Round(o.arrivals.Known))))
}

// TimeWords returns the time that all stages take, what it depends on, or n/a.
func (o *Total) TimeWords(b bounds) string {
	if b == InWords && o.byServer {
		return "depends on the server"
	}
	return b.Say(o.Time, words.Span(o.Time.Known))
}

// StageWords says how many stages a plan has.
func StageWords(plan *Plan) string { return TotalOf(plan.Outline()).StageWords() }

// ArrivalNoun returns the noun for what the loads of stages count.
func ArrivalNoun(stages []*spatev1.Stage) string {
	switch lists.Count(stages, func(s *spatev1.Stage) bool { return content.PlaysSessions(s.GetWorkload()) }) {
	case 0:
		return "requests"
	case len(stages):
		return "sessions"
	}
	return "requests or sessions"
}

// SimulationWords says that a plan runs on simulated engines in place of its targets' endpoints. Empty: it does not.
func SimulationWords(plan *Plan) string {
	s := plan.Proto().GetSimulation()
	if s == nil {
		return ""
	}
	text := "SIMULATION: built-in engines"
	if k := s.GetSpeed(); k > 0 && k != 1 {
		text += fmt.Sprintf(", time compressed %g times (rates x %g, times / %g)", k, k, k)
	}
	return text
}

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
