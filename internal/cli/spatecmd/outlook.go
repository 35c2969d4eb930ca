package spatecmd

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// outlook sums up what is known about stages before they run.
type outlook struct {
	stages   uint64
	atMost   bool // sweeps and searches may take fewer stages
	arrivals sum
	time     sum // in seconds
}

// sum is a sum whose parts may be upper bounds, approximate, or unknown.
type sum struct {
	known                  float64
	atMost, about, unknown bool
}

// outlookOf sums up stages. The pauses between them are part of their time.
func outlookOf(stages []*spatev1.Stage) *outlook {
	all := &outlook{}
	for _, s := range stages {
		one := outlookOn(s)
		if all.stages > 0 {
			one.time.known += s.GetPause().AsDuration().Seconds()
		}
		if one.stages > 1 {
			one.time.known += float64(one.stages-1) * s.GetPause().AsDuration().Seconds()
		}
		all.add(one)
	}
	return all
}

// outlookOn returns what is known about one stage, or about those that a sweep or a search becomes.
func outlookOn(s *spatev1.Stage) *outlook {
	e := plans.EstimateOf(s)
	o := &outlook{stages: uint64(e.Stages), atMost: e.Stages > 1, arrivals: arrivals(s, e)}
	o.time = starting(s.GetLoad(), e)
	if o.atMost {
		o.arrivals, o.time = o.arrivals.times(float64(e.Stages)), o.time.times(float64(e.Stages))
	}
	return o
}

// starting returns the time in which a stage starts requests.
func starting(l *spatev1.LoadPoint, e plans.Estimate) sum {
	return sum{
		known:   e.Time.Seconds(),
		unknown: !e.Timed,
		atMost: l.GetUntil() != nil || l.GetAbort() != nil || l.GetWarmupUntilSteady() != nil || e.Counted &&
			l.GetDuration() != nil,
		about: e.Counted && l.GetRate() > 0 && l.GetArrival() != "constant",
	}
}

// arrivals returns how many requests or sessions a stage starts. For a closed loop that ends by time, that depends on
// the server and is unknown.
func arrivals(s *spatev1.Stage, e plans.Estimate) sum {
	l := s.GetLoad()
	limits := l.GetDuration() != nil || l.GetAbort() != nil || l.GetUntil() != nil // it may end earlier
	byTime := sum{unknown: true}
	switch seconds := (e.Time - l.GetCooldown().AsDuration()).Seconds(); {
	case l.GetConcurrency() > 0 || l.GetReplaySpeed() > 0 || l.GetSearch() != nil || l.GetSweep() != nil:
	case len(l.GetPhases()) > 0:
		byTime = sum{known: area(l.GetPhases()), about: true}
	case l.GetRate() > 0 && e.Timed:
		byTime = sum{known: l.GetRate() * seconds, about: true}
	}
	switch {
	case !e.Counted:
		return byTime
	case limits && (byTime.unknown || byTime.known >= float64(e.Requests)):
		return sum{known: float64(e.Requests), atMost: true}
	case limits:
		return byTime
	}
	return sum{known: float64(e.Requests)}
}

// area returns the number of requests in phases of a rate: the sum of their integrals.
func area(phases []*spatev1.Phase) float64 {
	total := 0.0
	for _, p := range phases {
		from, to := p.GetFrom(), p.GetFrom()
		if p.To != nil {
			to = p.GetTo()
		}
		mean := (from + to) / 2 // of a line, and of steps that include both ends
		if p.GetShape() == "exponential" && from > 0 && to > 0 && from != to {
			mean = (to - from) / math.Log(to/from)
		}
		total += mean * p.GetDuration().AsDuration().Seconds()
	}
	return total
}

func (o *outlook) add(other *outlook) {
	o.stages += other.stages
	o.atMost = o.atMost || other.atMost
	o.arrivals.add(other.arrivals)
	o.time.add(other.time)
}

func (s *sum) add(other sum) {
	s.atMost, s.about = s.atMost || other.atMost, s.about || other.about
	s.unknown = s.unknown || other.unknown
	s.known += other.known
}

// times returns the sum over that many stages, or fewer.
func (s sum) times(stages float64) sum {
	s.known *= stages
	s.atMost = true
	return s
}

// Bounds as they are written in a sentence and in a table.
var (
	inWords = bounds{"at least ", "at most ", "about "}
	inTable = bounds{"≥", "≤", "~"}
)

type bounds struct{ atLeast, atMost, about string }

// say formats a sum whose known part is number.
func (b bounds) say(s sum, number string) string {
	switch {
	case s.unknown && (s.known == 0 || s.atMost):
		return "n/a"
	case s.unknown:
		return b.atLeast + number
	case s.atMost:
		return b.atMost + number
	case s.about:
		return b.about + number
	}
	return number
}

func (o *outlook) stageWords() string {
	if o.atMost {
		return "up to " + count(o.stages, "stage")
	}
	return count(o.stages, "stage")
}

func (o *outlook) arrivalWords(b bounds) string {
	return b.say(o.arrivals, thousands(uint64(math.Round(o.arrivals.known))))
}

func (o *outlook) timeWords(b bounds) string { return b.say(o.time, span(o.time.known)) }

// span formats a time in seconds: 33.3s, 1m40s, 2h5m.
func span(seconds float64) string {
	text := time.Duration(seconds * float64(time.Second)).Round(100 * time.Millisecond).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// stageWords says how many stages a plan has.
func stageWords(plan *plans.Plan) string { return outlookOf(plan.Outline()).stageWords() }

// arrivalNoun returns the noun for what the loads of stages count.
func arrivalNoun(stages []*spatev1.Stage) string {
	sessions := 0
	for _, s := range stages {
		if playsSessions(s.GetWorkload()) {
			sessions++
		}
	}
	switch sessions {
	case 0:
		return "requests"
	case len(stages):
		return "sessions"
	}
	return "requests or sessions"
}

func playsSessions(w *spatev1.Workload) bool {
	return w.GetSessions() != nil || w.GetSharegpt().GetSessions() != nil || w.GetJsonl().GetSessions() != nil
}

// simulationWords says that a plan runs on simulated engines in place of its targets' endpoints. Empty: it does not.
func simulationWords(plan *plans.Plan) string {
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
